"""Transcripts, the audit log, and the proofs behind them."""
