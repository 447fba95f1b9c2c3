"""The schema of settings: names, types, defaults, limits and descriptions.

`SETTINGS` is the only list of settings. The files, the environment variables, `compactctl config` and the README table
follow it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from compact.config.session_limits import SessionLimits
from compact.planning.tool_results.artifacts import Sensitivity
from compact.policy import CompactPolicy
from compact.redaction.patterns import compile_pattern


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class Telemetry(_Section):
    """Exporters that receive the events."""

    exporter: tuple[Literal["none", "console", "ariadne", "otlp", "custom"], ...] = Field(
        default=("none",), description="one or more of none, console, ariadne, otlp, custom"
    )
    url: str | None = Field(default=None, description="URL of the Ariadne server (default: ARIADNE_URL)")
    api_key: SecretStr | None = Field(default=None, description="ingest key of the server (prefer ARIADNE_API_KEY)")
    otlp_endpoint: str | None = Field(default=None, description="OTLP/HTTP endpoint (default: OTEL_EXPORTER_OTLP_*)")
    spool_dir: str = Field(default="", description="directory for unsent events (default: COMPACT_SPOOL_DIR)")
    custom: str | None = Field(default=None, description="module:callable that returns an exporter")

    @field_validator("exporter", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


class Storage(_Section):
    """Archive of the transcripts from before each compaction."""

    adapter: Literal["none", "fs", "s3", "ariadne", "database", "custom"] = Field(
        default="none", description="one of none, fs, s3, ariadne, database (SQLite), custom"
    )
    path: str = Field(default="./.compact/archive", description="directory (fs) or file (database)")
    retention_days: float | None = Field(
        default=None, gt=0, description="delete archives older than this (fs, database)"
    )
    bucket: str | None = Field(default=None, description="S3 bucket")
    prefix: str = Field(default="compact", description="S3 prefix")
    kms_key_id: str | None = Field(default=None, description="encrypt with this KMS key")
    region: str | None = Field(default=None, description="AWS region")
    endpoint_url: str | None = Field(default=None, description="URL of an S3-compatible server")
    require_role: bool = Field(default=True, description="reject static AWS keys and require an IAM role")
    url: str | None = Field(default=None, description="URL of the Ariadne server (default: ARIADNE_URL)")
    api_key: SecretStr | None = Field(default=None, description="ingest key of the server (prefer ARIADNE_API_KEY)")
    required: bool = Field(default=True, description="do not prune if archiving fails")
    custom: str | None = Field(default=None, description="module:callable that returns a storage adapter")


class Redaction(_Section):
    """Redaction of everything that leaves the process."""

    enabled: bool = Field(default=True, description="redact secrets before export and storage")
    pii: bool = Field(
        default=True, description="also redact card numbers, email addresses, phone numbers and national ids"
    )
    patterns: tuple[str, ...] = Field(
        default=(), description="additional regular expressions to redact, in the syntax of RE2"
    )
    allow: tuple[str, ...] = Field(
        default=(), description="rules (email) or texts (*@example.com) that are not redacted"
    )

    @field_validator("patterns")
    @classmethod
    def _compiles(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for number, pattern in enumerate(patterns):
            try:
                compile_pattern(pattern)
            except ValueError as error:
                raise ValueError(f"[{number}] is not a regular expression: {error}") from None
        return patterns


class Summarizer(_Section):
    """Summarizer for pruned messages."""

    kind: Literal["extractive", "model", "custom"] = Field(
        default="extractive", description="one of extractive (no network), model (OpenAI-compatible endpoint), custom"
    )
    model: str | None = Field(default=None, description="model for summaries (default: the agent's model)")
    base_url: str | None = Field(default=None, description="OpenAI-compatible endpoint (default: OPENAI_BASE_URL)")
    api_key: SecretStr | None = Field(default=None, description="API key of the endpoint (prefer OPENAI_API_KEY)")
    window_tokens: int | None = Field(
        default=None, gt=0, description="context window of the summarizer's model (default: max_context_tokens)"
    )
    background: bool = Field(
        default=False, description="start the summary before the trigger, so that no model call waits for it"
    )
    fallback: Literal["prune", "builtin"] = Field(
        default="prune",
        description="if it fails: prune (no summary, document 002) or builtin (the built-in summarizer)",
    )
    custom: str | None = Field(default=None, description="module:callable that returns a summarizer")


class PlanStore(_Section):
    """Store that shares plans between processes."""

    adapter: Literal["none", "memory", "fs", "custom"] = Field(
        default="none", description="one of none, memory (this process), fs, custom"
    )
    path: str = Field(default="./.compact/plans", description="directory (fs)")
    custom: str | None = Field(default=None, description="module:callable that returns a plan store")


class ArtifactStore(_Section):
    """Store for large tool results that are replaced by pointers."""

    adapter: Literal["none", "memory", "fs", "custom"] = Field(
        default="none", description="one of none, memory (this process), fs, custom"
    )
    path: str = Field(default="./.compact/artifacts", description="directory (fs)")
    ttl_seconds: int | None = Field(default=None, gt=0, description="delete artifacts after this many seconds")
    encryption_key_id: str | None = Field(default=None, description="encrypt artifacts with this key (fs)")
    cipher: str | None = Field(default=None, description="module:callable that returns the cipher (fs)")
    custom: str | None = Field(default=None, description="module:callable that returns an artifact store")


class Rehydration(_Section):
    """Limits of automatic rehydration."""

    enabled: bool = Field(default=True, description="show stored tool results again when a message asks for them")
    max_artifacts_per_turn: int = Field(default=3, ge=0, description="artifacts per user turn")
    max_tokens_per_artifact: int = Field(default=4000, gt=0, description="tokens of one artifact")
    total_budget_tokens: int = Field(default=8000, ge=0, description="tokens of all artifacts of a user turn")
    reserve_tokens: int = Field(default=2000, ge=0, description="tokens that a compaction leaves free for them")
    cooldown_turns: int = Field(default=2, ge=0, description="user turns before the same artifact is shown again")
    auto_rehydrate_sensitivities: tuple[Sensitivity, ...] = Field(
        default=("internal", "public"), description="sensitivities that may be shown without an explicit request"
    )


class Recall(_Section):
    """Recall of what a session has contained."""

    enabled: bool = Field(default=False, description="end each summary with a line that tells the model it can recall")
    tool_name: str = Field(default="recall", min_length=1, description="name of the tool in that line")


class Gateway(_Section):
    """Compact mode of the gateway."""

    compact: tuple[str, ...] = Field(
        default=(), description="agents whose requests `compactctl gateway` and `run` compact, such as claude, codex"
    )
    deadline_s: float = Field(
        default=10.0, gt=0, le=600, description="time that a request waits for its check before it is sent as it came"
    )


class ToolDurability(_Section):
    """Durability of one tool's results."""

    durability: Literal["ephemeral", "anchoring", "replayable", "non_replayable"] = "anchoring"
    must_preserve_fields: tuple[str, ...] = ()
    externalize_threshold_tokens: int = Field(default=1000, gt=0)
    replay_cost: Literal["free", "cheap", "expensive"] = "cheap"
    capture_determinism: str | None = Field(default=None, description="module:callable, called with the arguments")
    sensitivity: Sensitivity = "internal"


class Settings(_Section):
    """All settings that a file or the environment can define."""

    model: str = Field(default="gpt-5", description="model of the agent, which selects the tokenizer")
    max_context_tokens: int | None = Field(
        default=128_000, gt=0, description="context window of the model, or null if unknown"
    )
    policy: CompactPolicy = Field(default_factory=CompactPolicy, description="when to compact and what to keep")
    token_estimator: Literal["tiktoken", "noop"] = Field(
        default="tiktoken", description="one of tiktoken (exact), noop (bytes / 3)"
    )
    summarizer: Summarizer = Summarizer()
    telemetry: Telemetry = Telemetry()
    storage: Storage = Storage()
    redaction: Redaction = Redaction()
    limits: SessionLimits = Field(default_factory=SessionLimits, description="how much a manager remembers")
    plan_store: PlanStore = PlanStore()
    artifact_store: ArtifactStore = ArtifactStore()
    rehydration: Rehydration = Rehydration()
    recall: Recall = Recall()
    gateway: Gateway = Gateway()
    tool_durability: dict[str, ToolDurability] = Field(
        default={}, description="durability of tool results, by the name of the tool"
    )


class Setting(NamedTuple):
    """One setting and its place in the schema."""

    path: str
    default: Any
    description: str
    annotation: Any

    @property
    def variable(self) -> str:
        """Name of its environment variable. Policy settings leave out POLICY: `COMPACT_TRIGGER_PCT`."""
        return f"COMPACT_{self.path.removeprefix('policy.').replace('.', '_').upper()}"

    @property
    def variables(self) -> tuple[str, ...]:
        """All accepted names of its environment variable."""
        full = f"COMPACT_{self.path.replace('.', '_').upper()}"
        return (self.variable,) if full == self.variable else (self.variable, full)

    def value_in(self, settings: Settings) -> Any:
        """Return the value of this setting."""
        value: Any = settings
        for part in self.path.split("."):
            value = getattr(value, part)
        return value


def section_fields(section: Any) -> Mapping[str, Any]:
    """Return the field names of a section and their types."""
    if is_dataclass(section):
        return get_type_hints(section)
    return {name: info.annotation for name, info in section.model_fields.items()}


def is_section(annotation: Any) -> bool:
    """True if a field of this type contains settings."""
    return isinstance(annotation, type) and (issubclass(annotation, _Section) or is_dataclass(annotation))


def _list_settings(section: Any, prefix: str = "") -> Iterator[Setting]:
    for name, annotation in section_fields(section).items():
        if is_section(annotation):
            yield from _list_settings(annotation, f"{prefix}{name}.")
        elif is_dataclass(section):
            default = next(item.default for item in fields(section) if item.name == name)
            yield Setting(f"{prefix}{name}", default, "", annotation)
        else:
            info = section.model_fields[name]
            yield Setting(f"{prefix}{name}", info.default, info.description or "", annotation)


SETTINGS: Mapping[str, Setting] = MappingProxyType({setting.path: setting for setting in _list_settings(Settings)})
