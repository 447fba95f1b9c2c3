"""Summarizers: the built-in extractive one, a model-backed one, and wrappers that cache or prepare summaries."""

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
