"""Archived transcripts: their pages, states, exports and signed bundles."""
