"""Rule-based extraction: find entities, classify lines, and select the lines to keep.

All functions are pure and deterministic. They use no clock, model or network.
"""
