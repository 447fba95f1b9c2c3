"""People, roles, projects, keys and tokens."""
