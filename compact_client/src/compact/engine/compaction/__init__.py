"""One compaction: drafts, the ladder, the summary, the plan and its ledger."""
