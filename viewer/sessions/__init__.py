"""The session list, the session page and the session API."""
