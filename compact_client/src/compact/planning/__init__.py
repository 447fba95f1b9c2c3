"""Decide what a compaction keeps, and record the decision as a plan.

Pure functions and data: nothing here calls a model, a store or an exporter. `trigger` decides whether to compact,
`draft` what to keep, `strategies` how to remove the rest, and `plan` records the result.
"""
