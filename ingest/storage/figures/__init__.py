"""Figures that change in the transaction of the spans: aggregates, trends and usage, and their recounts."""
