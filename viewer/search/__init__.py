"""Full-text search over session ids, names, metadata, summaries and messages."""
