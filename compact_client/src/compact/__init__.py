"""Context compaction for LLM agents."""
