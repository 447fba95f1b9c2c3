"""The tracer provider of an `OTLPExporter` that runs outside an OpenTelemetry application."""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider as SDKTracerProvider
    from opentelemetry.trace import TracerProvider

_HEX = re.compile(r"[0-9a-f]+\Z")
_REPEAT_LOG_S = 60.0


class EventIds:
    """An id generator that gives each span the ids of its event, so that all exporters agree on them."""

    next: tuple[Any, Any] = (None, None)
    """Trace id and span id of the next span."""

    def is_trace_id_random(self) -> bool:
        return False

    def generate_trace_id(self) -> int:
        return _to_number(self.next[0], 32)

    def generate_span_id(self) -> int:
        return _to_number(self.next[1], 16)


class OwnProvider:
    """A provider that sends OTLP over HTTP and counts failed exports."""

    def __init__(
        self,
        endpoint: str | None,
        *,
        headers: Mapping[str, str] | None,
        service_name: str,
        timeout_s: float,
        ids: EventIds,
    ) -> None:
        self.failures = 0
        self.provider = self._build(endpoint, headers, service_name, timeout_s, ids)

    def _build(
        self,
        endpoint: str | None,
        headers: Mapping[str, str] | None,
        service_name: str,
        timeout_s: float,
        ids: EventIds,
    ) -> SDKTracerProvider:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

        owner = self

        class CountingExporter(OTLPSpanExporter):
            def export(self, spans: Sequence[Any]) -> SpanExportResult:
                result = super().export(spans)
                if result is not SpanExportResult.SUCCESS:
                    owner.failures += 1
                return result

        exporter = CountingExporter(endpoint, headers=dict(headers) if headers else None, timeout=timeout_s)
        provider = TracerProvider(
            resource=Resource.create({"service.name": service_name}), id_generator=cast(Any, ids), shutdown_on_exit=True
        )
        provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=50))
        logging.getLogger("opentelemetry.exporter.otlp").addFilter(_limit_repeats)
        return provider


def application_provider() -> TracerProvider | None:
    """Return the provider that the application has set up, or None."""
    from opentelemetry import trace

    provider = trace.get_tracer_provider()
    # If the application has not set up the SDK, the API returns a proxy that records nothing.
    return provider if hasattr(provider, "add_span_processor") else None


def _to_number(identifier: Any, digits: int) -> int:
    text = str(identifier or "").removeprefix("trace_").removeprefix("span_").replace("-", "").lower()
    if not text:
        return secrets.randbits(digits * 4) or 1
    if len(text) == digits and _HEX.match(text) and int(text, 16):
        return int(text, 16)
    return int(hashlib.sha256(text.encode()).hexdigest()[:digits], 16) or 1


_logged_at: dict[str, float] = {}


def _limit_repeats(record: logging.LogRecord) -> bool:
    """Pass each message of the SDK's exporter at most once a minute."""
    if record.created - _logged_at.get(record.msg, 0.0) < _REPEAT_LOG_S:
        return False
    _logged_at[record.msg] = record.created
    return True
