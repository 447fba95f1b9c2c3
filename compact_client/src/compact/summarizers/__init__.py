"""Summarisers: the built-in extractive one, one that asks a model, and what keeps or prepares their work."""

from __future__ import annotations

from compact.summarizers.background import BackgroundSummarizer
from compact.summarizers.cache import (
    DiskSummaryCache,
    MemorySummaryCache,
    SummaryCache,
    SummaryCacheKey,
    TieredSummaryCache,
)
from compact.summarizers.extractive import ExtractiveSummarizer
from compact.summarizers.model import ModelSummarizer

__all__ = [
    "BackgroundSummarizer",
    "DiskSummaryCache",
    "ExtractiveSummarizer",
    "MemorySummaryCache",
    "ModelSummarizer",
    "SummaryCache",
    "SummaryCacheKey",
    "TieredSummaryCache",
]
