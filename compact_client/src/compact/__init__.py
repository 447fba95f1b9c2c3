"""Context compaction for LLM agents, with an immutable log, a plan as data, and a choice of renderers."""

from __future__ import annotations

from compact.adapters import AriadneStorage, DatabaseStorage, FileStorage, S3Storage
from compact.config import CompactConfig, load_config
from compact.estimators import NoopEstimator, TiktokenEstimator
from compact.exceptions import CompactError, ConfigError, InsufficientBudget, SummarizationError
from compact.exporters import AriadneExporter, CallbackExporter, ConsoleExporter, MultiExporter, OTLPExporter
from compact.manager import CompactManager
from compact.messages import Message, ToolCall
from compact.planning.plan import CompactionPlan
from compact.policy import CompactPolicy
from compact.redaction import Redactor
from compact.redaction.outbound import RedactionSettings

__all__ = [
    "AriadneExporter",
    "AriadneStorage",
    "CallbackExporter",
    "CompactConfig",
    "CompactError",
    "CompactManager",
    "CompactPolicy",
    "CompactionPlan",
    "ConfigError",
    "ConsoleExporter",
    "DatabaseStorage",
    "FileStorage",
    "InsufficientBudget",
    "Message",
    "MultiExporter",
    "NoopEstimator",
    "OTLPExporter",
    "RedactionSettings",
    "Redactor",
    "S3Storage",
    "SummarizationError",
    "TiktokenEstimator",
    "ToolCall",
    "load_config",
]
