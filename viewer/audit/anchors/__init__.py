"""Signed fingerprints of the archive and the audit log, stored outside the database."""
