"""The session list and the session page."""
