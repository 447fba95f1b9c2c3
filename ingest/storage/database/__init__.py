"""Connections to Postgres, transactions, partitions and rows for COPY."""
