"""Objects from settings: the exporter, the archive, the summariser that a file can only name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from compact.config import CompactConfig
from compact.config.settings import Settings, Storage, Summarizer, Telemetry
from compact.exceptions import ConfigError
from compact.redaction.outbound import RedactionSettings


def build(settings: Settings, objects: Mapping[str, Any] | None = None) -> CompactConfig:
    """A configuration for a manager; `objects` are used as they are, in place of what the settings name."""
    objects = objects or {}
    redaction = settings.redaction
    return CompactConfig(
        model=settings.model,
        max_context_tokens=settings.max_context_tokens,
        policy=settings.policy,
        token_estimator=objects.get("token_estimator") or estimator(settings.token_estimator),
        summarizer=objects.get("summarizer") or summarizer(settings.summarizer, settings.model),
        storage=objects.get("storage") or storage(settings.storage),
        exporter=objects.get("exporter") or exporter(settings.telemetry),
        redact=objects.get("redact"),
        redaction=RedactionSettings(
            enabled=redaction.enabled, pii=redaction.pii, patterns=redaction.patterns, allow=redaction.allow
        ),
        archive_required=settings.storage.required,
    )


def estimator(name: str) -> Any:
    from compact.estimators import NoopEstimator, TiktokenEstimator

    return NoopEstimator() if name == "noop" else TiktokenEstimator()


def exporter(telemetry: Telemetry) -> Any:
    """The exporter that is named, or several as one; None for none."""
    from compact.exporters import MultiExporter

    made = [_exporter(name, telemetry) for name in telemetry.exporter if name != "none"]
    if not made:
        return None
    return made[0] if len(made) == 1 else MultiExporter(*made)


def _exporter(name: str, telemetry: Telemetry) -> Any:
    from compact.exporters import AriadneExporter, ConsoleExporter, OTLPExporter

    match name:
        case "console":
            return ConsoleExporter()
        case "ariadne":
            key = telemetry.api_key.get_secret_value() if telemetry.api_key else None
            return AriadneExporter(telemetry.url, key, spool_dir=telemetry.spool_dir)
        case "otlp":
            return OTLPExporter(telemetry.otlp_endpoint)
    return _custom("telemetry.custom", telemetry.custom)


def storage(settings: Storage) -> Any:
    """The archive that is named; None for none."""
    from compact.adapters import AriadneStorage, DatabaseStorage, FileStorage, S3Storage

    match settings.adapter:
        case "none":
            return None
        case "fs":
            return FileStorage(settings.path, retention_days=settings.retention_days)
        case "s3":
            if not settings.bucket:
                raise ConfigError("storage.bucket", "is needed for adapter s3")
            return S3Storage(
                settings.bucket,
                settings.prefix,
                kms_key_id=settings.kms_key_id,
                region=settings.region,
                endpoint_url=settings.endpoint_url,
                require_role=settings.require_role,
            )
        case "ariadne":
            key = settings.api_key.get_secret_value() if settings.api_key else None
            return AriadneStorage(settings.url, key)
        case "database":
            import sqlite3

            path = settings.path
            return DatabaseStorage(lambda: sqlite3.connect(path), retention_days=settings.retention_days)
    return _custom("storage.custom", settings.custom)


def summarizer(settings: Summarizer, model: str) -> Any:
    """The summariser that is named; None for the built-in one."""
    if settings.kind == "extractive":
        return None
    if settings.kind == "custom":
        return _custom("summarizer.custom", settings.custom)
    from compact.summarizers import BackgroundSummarizer, ModelSummarizer

    key = settings.api_key.get_secret_value() if settings.api_key else None
    made = ModelSummarizer(settings.model or model, base_url=settings.base_url, api_key=key)
    return BackgroundSummarizer(made) if settings.background else made


def _custom(path: str, name: str | None) -> Any:
    module, _, attribute = (name or "").partition(":")
    if not module or not attribute:
        raise ConfigError(path, "must be module:callable")
    try:
        return getattr(import_module(module), attribute)()
    except (ImportError, AttributeError) as error:
        raise ConfigError(path, f"cannot be imported: {error}") from None
