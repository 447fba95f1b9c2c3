"""Summarizers: the built-in extractive one, a model-backed one, and wrappers that cache or prepare summaries.

`__all__` is for users. The engine also uses `fit`, `restore_lost_facts`, `RetentionReport` and `READ_AHEAD`, and no
other part of this package.
"""

from __future__ import annotations

from compact.summarizers.background import BackgroundSummarizer
from compact.summarizers.cache import (
    DiskSummaryCache,
    MemorySummaryCache,
    SummaryCache,
    SummaryCacheKey,
    TieredSummaryCache,
)
from compact.summarizers.extraction.summary_builder import fit as fit
from compact.summarizers.extractive import ExtractiveSummarizer
from compact.summarizers.model import ModelSummarizer
from compact.summarizers.read_ahead import READ_AHEAD as READ_AHEAD
from compact.summarizers.retention import RetentionReport as RetentionReport
from compact.summarizers.retention import restore_lost_facts as restore_lost_facts

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
