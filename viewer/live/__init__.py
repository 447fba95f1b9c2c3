"""Live updates: websockets and the tail page."""
