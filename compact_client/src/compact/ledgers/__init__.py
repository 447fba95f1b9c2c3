"""The ledger of compactions that others made, with inferred fates: agents with logs, and providers."""
