"""Transcripts, the audit log, and their signatures."""
