"""HTTP endpoints of the write path."""
