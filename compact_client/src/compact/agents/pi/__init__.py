"""pi: its logs."""
