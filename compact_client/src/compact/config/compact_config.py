"""The configuration of a manager.

`CompactConfig` is built in code and holds objects. `load_config` builds one from a file, the `COMPACT_*` environment
variables and keyword arguments.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from compact.config.recall_options import RecallOptions
from compact.config.session_limits import SessionLimits
from compact.exceptions import ConfigError
from compact.policy import CompactPolicy
from compact.redaction.outbound import RedactionSettings

if TYPE_CHECKING:
    from compact.messages import Message


# Settings whose section may be replaced by an object in code.
OBJECTS = ("exporter", "storage", "summarizer", "token_estimator", "redact", "plan_store", "artifact_store")


@dataclass(frozen=True, slots=True)
class CompactConfig:
    """Everything a manager needs. Only the model and its context window have no default."""

    model: str
    max_context_tokens: int | None
    policy: CompactPolicy = field(default_factory=CompactPolicy)
    token_estimator: Any = None
    summarizer: Any = None
    summarizer_fallback: Literal["prune", "builtin"] = "prune"
    """Reaction to a failed summarizer: `prune` drops the span without a summary, as document 002 says. `builtin`
    lets the built-in summarizer write it."""
    storage: Any = None
    exporter: Any = None
    redact: Callable[[Message], Message] | None = None
    redaction: RedactionSettings = field(default_factory=RedactionSettings)
    archive_required: bool = True
    """If True, nothing is pruned when archiving fails. If False, it is pruned and a warning event is emitted."""
    artifact_store: Any = None
    artifact_ttl_seconds: int | None = None
    """Lifetime of stored artifacts, None for no end."""
    artifact_key_id: str | None = None
    """The key with which the artifact store's cipher encrypts, None for plain text."""
    plan_store: Any = None
    security_context: Any = None
    rehydration: Any = None
    tool_durability: Mapping[str, Any] = field(default_factory=dict)
    limits: SessionLimits = field(default_factory=SessionLimits)
    recall: RecallOptions = field(default_factory=RecallOptions)

    def __post_init__(self) -> None:
        window = self.max_context_tokens
        if window is not None and (not isinstance(window, int) or window <= 0):
            raise ConfigError(
                "max_context_tokens", f"must be greater than 0, or None if the window is unknown, not {window!r}"
            )
        if self.policy is None or isinstance(self.policy, Mapping):
            object.__setattr__(self, "policy", CompactPolicy(**(self.policy or {})))
        for name, section in (("limits", SessionLimits), ("recall", RecallOptions)):
            if isinstance(values := getattr(self, name), Mapping):
                object.__setattr__(self, name, section(**values))
        if not isinstance(self.policy, CompactPolicy):
            raise ConfigError("policy", f"must be a CompactPolicy, not {type(self.policy).__name__}")
        if self.summarizer_fallback not in ("prune", "builtin"):
            raise ConfigError("summarizer.fallback", f"must be one of prune, builtin, not {self.summarizer_fallback!r}")
        self._check_window(self.policy.hard_cap_buffer)

    def _check_window(self, buffer: int) -> None:
        window = self.max_context_tokens
        if window is not None and window <= buffer:
            raise ConfigError(
                "max_context_tokens",
                f"must be greater than policy.hard_cap_buffer: {window:,} - {buffer:,} leaves nothing for messages. "
                "Use the model's real window, or a smaller buffer",
            )


def load_config(
    path: str | os.PathLike[str] | None = None, *, environ: Mapping[str, str] | None = None, **overrides: Any
) -> CompactConfig:
    """Build a configuration from a YAML or JSON file, the environment and keyword arguments, in increasing priority.

    Without `path`, the file is the one that `COMPACT_CONFIG` names, or `compact.yaml`, `compact.yml` or `compact.json`
    in the current directory, if there is one. `overrides` are top-level settings (`model="gpt-5"`). A section is a dict
    (`policy={"trigger_pct": 0.9}`), and `exporter`, `storage`, `summarizer`, `token_estimator`, `plan_store` and
    `artifact_store` may be objects. A `COMPACT_*` variable that matches no setting is a warning.
    """
    # Import pydantic and YAML here to keep `import compact` fast.
    from compact.config.factory import build
    from compact.config.sources import resolve, unknown_variables

    for problem in unknown_variables(os.environ if environ is None else environ):
        warnings.warn(f"{problem.path} {problem.message}", UserWarning, stacklevel=2)
    objects: dict[str, Any] = {
        name: overrides.pop(name)
        for name in OBJECTS
        if name in overrides and not isinstance(overrides[name], (str, Mapping, type(None)))
    }
    return build(resolve(path, environ=environ, code=overrides).settings, objects)
