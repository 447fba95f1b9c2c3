"""One table of settings; everything but the model and its window has a default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from compact.exceptions import ConfigError
from compact.outbound import RedactionSettings
from compact.policy import CompactPolicy

if TYPE_CHECKING:
    from compact.messages import Message


@dataclass(frozen=True, slots=True)
class CompactConfig:
    """What a manager needs to know."""

    model: str
    max_context_tokens: int | None
    policy: CompactPolicy = field(default_factory=CompactPolicy)
    token_estimator: Any = None
    summarizer: Any = None
    storage: Any = None
    exporter: Any = None
    redact: Callable[[Message], Message] | None = None
    redaction: RedactionSettings = field(default_factory=RedactionSettings)
    archive_required: bool = True
    artifact_store: Any = None
    plan_store: Any = None
    security_context: Any = None
    rehydration: Any = None
    tool_durability: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.max_context_tokens is not None and self.max_context_tokens <= 0:
            raise ConfigError("max_context_tokens", "must be more than 0, or null when the window is unknown")
