"""What a manager needs to know. Everything but the model and its window has a default.

`CompactConfig` holds objects and is made in code; `load_config` makes one from a file, the `COMPACT_*` environment and
keyword arguments, by the one table of settings in `compact.config.settings`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from compact.exceptions import ConfigError
from compact.policy import CompactPolicy
from compact.redaction.outbound import RedactionSettings

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
    """Without an archived transcript nothing is pruned; False prunes all the same, with a warning event."""
    artifact_store: Any = None
    plan_store: Any = None
    security_context: Any = None
    rehydration: Any = None
    tool_durability: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        window = self.max_context_tokens
        if window is not None and (not isinstance(window, int) or window <= 0):
            raise ConfigError(
                "max_context_tokens", f"must be more than 0, or null when the window is unknown: {window!r}"
            )
        if self.policy is None or isinstance(self.policy, Mapping):
            object.__setattr__(self, "policy", CompactPolicy(**(self.policy or {})))
        if not isinstance(self.policy, CompactPolicy):
            raise ConfigError("policy", f"must be a CompactPolicy, not {type(self.policy).__name__}")


def load_config(
    path: str | os.PathLike[str] | None = None, *, environ: Mapping[str, str] | None = None, **overrides: Any
) -> CompactConfig:
    """A configuration from a YAML or JSON file, the environment and code; each wins over the one before it.

    Without `path`, `COMPACT_CONFIG` names the file, else `compact.yaml`, `.yml` or `.json` here, else all is default.
    `overrides` are top-level settings (`model="gpt-5"`) and may be dicts (`policy={"trigger_pct": 0.9}`) or, for
    `exporter`, `storage`, `summarizer` and `token_estimator`, objects.
    """
    # Pydantic and YAML load here, so that `import compact` stays quick.
    from compact.config.factory import build
    from compact.config.settings import resolve

    objects: dict[str, Any] = {
        name: overrides.pop(name)
        for name in ("exporter", "storage", "summarizer", "token_estimator", "redact")
        if name in overrides and not isinstance(overrides[name], (str, Mapping, type(None)))
    }
    return build(resolve(path, environ=environ, code=overrides).settings, objects)
