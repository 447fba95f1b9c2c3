"""Decisions about single tool results: durability, truncation and externalized content."""
