"""The compaction page, the comparison page and their calculations."""
