"""Context compaction for LLM agents, with an immutable log, a plan as data, and a choice of renderers.

Names are imported when they are first used, so that small commands such as an agent's hook start quickly.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_MODULES = {
    "AriadneExporter": "compact.exporters",
    "AriadneStorage": "compact.adapters",
    "CallbackExporter": "compact.exporters",
    "CompactConfig": "compact.config",
    "CompactError": "compact.exceptions",
    "CompactManager": "compact.manager",
    "CompactPolicy": "compact.policy",
    "CompactionPlan": "compact.planning.plan",
    "ConfigError": "compact.exceptions",
    "ConsoleExporter": "compact.exporters",
    "DatabaseStorage": "compact.adapters",
    "FileStorage": "compact.adapters",
    "InsufficientBudget": "compact.exceptions",
    "Message": "compact.messages",
    "MultiExporter": "compact.exporters",
    "NoopEstimator": "compact.estimators",
    "OTLPExporter": "compact.exporters",
    "RedactionSettings": "compact.redaction.outbound",
    "Redactor": "compact.redaction",
    "S3Storage": "compact.adapters",
    "SummarizationError": "compact.exceptions",
    "TiktokenEstimator": "compact.estimators",
    "ToolCall": "compact.messages",
    "load_config": "compact.config",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
        return value
    if not name.startswith("_"):
        try:
            return importlib.import_module(f"compact.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"compact.{name}":
                raise
    raise AttributeError(f"module 'compact' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
