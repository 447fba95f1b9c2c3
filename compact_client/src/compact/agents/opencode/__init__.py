"""opencode: its sessions, and the storage that they are in."""
