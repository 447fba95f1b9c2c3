"""Build the exporter, stores, summarizer and token estimator that the settings name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from pydantic import SecretStr

from compact.config import CompactConfig, RecallOptions
from compact.config.settings import (
    ArtifactStore,
    PlanStore,
    Rehydration,
    Settings,
    Storage,
    Telemetry,
    ToolDurability,
)
from compact.config.sources import Problem, config_error
from compact.exceptions import ConfigError
from compact.planning.rehydration import RehydrationConfig
from compact.planning.tool_results import durability
from compact.planning.tool_results.durability import ToolDurabilityPolicy
from compact.redaction.outbound import RedactionSettings


def build(settings: Settings, objects: Mapping[str, Any] | None = None) -> CompactConfig:
    """Return a configuration. Each of `objects` replaces the one that the settings name.

    Raises one ConfigError for everything that cannot be built.
    """
    redaction = settings.redaction
    parts = _Parts(objects or {})
    values: dict[str, Any] = {
        "token_estimator": parts.build("token_estimator", lambda: build_estimator(settings.token_estimator)),
        "summarizer": parts.build("summarizer", lambda: build_summarizer(settings)),
        "storage": parts.build("storage", lambda: build_storage(settings.storage)),
        "exporter": parts.build("exporter", lambda: build_exporter(settings.telemetry)),
        "plan_store": parts.build("plan_store", lambda: build_plan_store(settings.plan_store)),
        "artifact_store": parts.build("artifact_store", lambda: build_artifact_store(settings.artifact_store)),
        "tool_durability": parts.build("tool_durability", lambda: build_tool_durability(settings.tool_durability)),
    }
    values |= {
        "redact": (objects or {}).get("redact"),
        "redaction": RedactionSettings(
            enabled=redaction.enabled, pii=redaction.pii, patterns=redaction.patterns, allow=redaction.allow
        ),
        "summarizer_fallback": settings.summarizer.fallback,
        "archive_required": settings.storage.required,
        "artifact_ttl_seconds": settings.artifact_store.ttl_seconds,
        "artifact_key_id": settings.artifact_store.encryption_key_id,
        "rehydration": build_rehydration(settings.rehydration),
        "limits": settings.limits,
        "recall": RecallOptions(**settings.recall.model_dump()),
    }
    config = parts.build(
        "config", lambda: CompactConfig(settings.model, settings.max_context_tokens, settings.policy, **values)
    )
    if parts.problems:
        raise config_error(parts.problems)
    result: CompactConfig = config
    return result


class _Parts:
    """Builds the parts of a configuration, and collects the problems instead of stopping at the first."""

    def __init__(self, objects: Mapping[str, Any]) -> None:
        self._objects = objects
        self.problems: list[Problem] = []

    def build(self, name: str, create: Callable[[], Any]) -> Any:
        if self._objects.get(name) is not None:
            return self._objects[name]
        try:
            return create()
        except ConfigError as error:
            self.problems.append(Problem(error.path, error.problem))
            return None


def build_estimator(name: str) -> Any:
    """Return the token estimator with this name."""
    from compact.estimators import NoopEstimator, TiktokenEstimator

    return NoopEstimator() if name == "noop" else TiktokenEstimator()


def build_exporter(telemetry: Telemetry) -> Any:
    """Return the exporter, a `MultiExporter` if there are several, or None."""
    from compact.exporters import MultiExporter

    exporters = [_build_exporter(name, telemetry) for name in telemetry.exporter if name != "none"]
    if not exporters:
        return None
    return exporters[0] if len(exporters) == 1 else MultiExporter(*exporters)


def _build_exporter(name: str, telemetry: Telemetry) -> Any:
    from compact.exporters import AriadneExporter, ConsoleExporter, OTLPExporter

    match name:
        case "console":
            return ConsoleExporter()
        case "ariadne":
            return AriadneExporter(telemetry.url, _reveal(telemetry.api_key), spool_dir=telemetry.spool_dir)
        case "otlp":
            return OTLPExporter(telemetry.otlp_endpoint)
    return _build_custom("telemetry.custom", telemetry.custom)


def build_storage(settings: Storage) -> Any:
    """Return the storage adapter, or None."""
    from compact.adapters import AriadneStorage, DatabaseStorage, FileStorage, S3Storage

    match settings.adapter:
        case "none":
            return None
        case "fs":
            return FileStorage(settings.path, retention_days=settings.retention_days)
        case "s3":
            if not settings.bucket:
                raise ConfigError("storage.bucket", "is required if storage.adapter is s3")
            return S3Storage(
                settings.bucket,
                settings.prefix,
                kms_key_id=settings.kms_key_id,
                region=settings.region,
                endpoint_url=settings.endpoint_url,
                require_role=settings.require_role,
            )
        case "ariadne":
            return AriadneStorage(settings.url, _reveal(settings.api_key))
        case "database":
            import sqlite3

            path = settings.path
            return DatabaseStorage(lambda: sqlite3.connect(path), retention_days=settings.retention_days)
    return _build_custom("storage.custom", settings.custom)


def build_plan_store(settings: PlanStore) -> Any:
    """Return the plan store, or None."""
    from compact.adapters.plan_stores import FileCompactionStore, MemoryCompactionStore

    match settings.adapter:
        case "none":
            return None
        case "memory":
            return MemoryCompactionStore()
        case "fs":
            return FileCompactionStore(settings.path)
    return _build_custom("plan_store.custom", settings.custom)


def build_artifact_store(settings: ArtifactStore) -> Any:
    """Return the artifact store, or None."""
    from compact.adapters.artifact_stores import FileArtifactStore, MemoryArtifactStore

    if settings.encryption_key_id and settings.adapter == "fs" and not settings.cipher:
        raise ConfigError("artifact_store.cipher", "is required if artifact_store.encryption_key_id is set")
    match settings.adapter:
        case "none":
            return None
        case "memory":
            return MemoryArtifactStore()
        case "fs":
            cipher = _build_custom("artifact_store.cipher", settings.cipher) if settings.cipher else None
            return FileArtifactStore(settings.path, cipher=cipher)
    return _build_custom("artifact_store.custom", settings.custom)


def build_rehydration(settings: Rehydration) -> RehydrationConfig:
    """Return the limits of automatic rehydration."""
    values = settings.model_dump()
    sensitivities = frozenset(values.pop("auto_rehydrate_sensitivities"))
    return RehydrationConfig(**values, auto_rehydrate_sensitivities=sensitivities)


def build_tool_durability(settings: Mapping[str, ToolDurability]) -> dict[str, ToolDurabilityPolicy]:
    """Return the durability of each tool."""
    policies = {}
    for name, tool in settings.items():
        values = tool.model_dump()
        path = f"tool_durability.{name}.capture_determinism"
        values["durability"] = durability.ToolDurability(values["durability"])
        values["capture_determinism"] = _import(path, tool.capture_determinism) if tool.capture_determinism else None
        policies[name] = ToolDurabilityPolicy(**values)
    return policies


def build_summarizer(agent: Settings) -> Any:
    """Return the summarizer, or None for the built-in one."""
    settings = agent.summarizer
    if settings.kind == "extractive":
        return None
    if settings.kind == "custom":
        return _build_custom("summarizer.custom", settings.custom)
    from compact.summarizers import BackgroundSummarizer, ModelSummarizer

    summarizer = ModelSummarizer(
        settings.model or agent.model,
        base_url=settings.base_url,
        api_key=_reveal(settings.api_key),
        window_tokens=settings.window_tokens or agent.max_context_tokens,
    )
    return BackgroundSummarizer(summarizer) if settings.background else summarizer


def _reveal(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None


def _build_custom(path: str, name: str | None) -> Any:
    return _import(path, name)()


def _import(path: str, name: str | None) -> Any:
    module, _, attribute = (name or "").partition(":")
    if not module or not attribute:
        raise ConfigError(path, f"must be module:callable, not {name!r}")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(path, f"cannot be imported: {error}") from None
