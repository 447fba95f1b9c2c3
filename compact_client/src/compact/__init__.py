"""Context compaction for LLM agents: an immutable log, a plan as pure data, a renderer."""

from __future__ import annotations

from compact.config import CompactConfig
from compact.estimators import NoopEstimator, TiktokenEstimator
from compact.exceptions import CompactError, ConfigError, InsufficientBudget, SummarizationError
from compact.manager import CompactManager
from compact.messages import Message, ToolCall
from compact.plan import CompactionPlan
from compact.policy import CompactPolicy

__all__ = [
    "CompactConfig",
    "CompactError",
    "CompactManager",
    "CompactPolicy",
    "CompactionPlan",
    "ConfigError",
    "InsufficientBudget",
    "Message",
    "NoopEstimator",
    "SummarizationError",
    "TiktokenEstimator",
    "ToolCall",
]
