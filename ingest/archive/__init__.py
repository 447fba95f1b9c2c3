"""Pre-compact transcripts, their hash chain and its verification."""
