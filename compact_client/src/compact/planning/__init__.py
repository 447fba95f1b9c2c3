"""Decide what a compaction keeps, and record the decision as a plan. Pure functions and data."""
