"""Structured tool results as one line per record, and the newest state of each record."""
