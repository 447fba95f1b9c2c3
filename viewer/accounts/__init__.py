"""Users, roles, projects, ingest keys and API tokens."""
