"""Build the exporter, storage, summarizer and token estimator that the settings name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from pydantic import SecretStr

from compact.config import CompactConfig
from compact.config.settings import Settings, Storage, Summarizer, Telemetry
from compact.exceptions import ConfigError
from compact.redaction.outbound import RedactionSettings


def build(settings: Settings, objects: Mapping[str, Any] | None = None) -> CompactConfig:
    """Return a configuration. Each of `objects` replaces the one that the settings name."""
    objects = objects or {}
    redaction = settings.redaction
    return CompactConfig(
        model=settings.model,
        max_context_tokens=settings.max_context_tokens,
        policy=settings.policy,
        token_estimator=objects.get("token_estimator") or build_estimator(settings.token_estimator),
        summarizer=objects.get("summarizer") or build_summarizer(settings.summarizer, settings.model),
        storage=objects.get("storage") or build_storage(settings.storage),
        exporter=objects.get("exporter") or build_exporter(settings.telemetry),
        redact=objects.get("redact"),
        redaction=RedactionSettings(
            enabled=redaction.enabled, pii=redaction.pii, patterns=redaction.patterns, allow=redaction.allow
        ),
        archive_required=settings.storage.required,
        limits=settings.limits,
    )


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


def build_summarizer(settings: Summarizer, model: str) -> Any:
    """Return the summarizer, or None for the built-in one."""
    if settings.kind == "extractive":
        return None
    if settings.kind == "custom":
        return _build_custom("summarizer.custom", settings.custom)
    from compact.summarizers import BackgroundSummarizer, ModelSummarizer

    summarizer = ModelSummarizer(settings.model or model, base_url=settings.base_url, api_key=_reveal(settings.api_key))
    return BackgroundSummarizer(summarizer) if settings.background else summarizer


def _reveal(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None


def _build_custom(path: str, name: str | None) -> Any:
    module, _, attribute = (name or "").partition(":")
    if not module or not attribute:
        raise ConfigError(path, f"must be module:callable, not {name!r}")
    try:
        return getattr(import_module(module), attribute)()
    except (ImportError, AttributeError) as error:
        raise ConfigError(path, f"cannot be imported: {error}") from None
