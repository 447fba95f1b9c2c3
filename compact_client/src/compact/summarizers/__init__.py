"""Summarisers: the built-in extractive one, and one that asks a model."""

from __future__ import annotations

from compact.summarizers.extractive import ExtractiveSummarizer

__all__ = ["ExtractiveSummarizer"]
