"""The tracer provider of an `OTLPExporter` that runs outside an OpenTelemetry application."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from compact.delivery.stderr import log_problem

if TYPE_CHECKING:
    import requests
    from opentelemetry.sdk.trace import TracerProvider as SDKTracerProvider
    from opentelemetry.trace import TracerProvider

_HEX = re.compile(r"[0-9a-f]+\Z")
_REPEAT_LOG_S = 60.0
# The SDK tries again after this status.
_NOT_A_RECEIVER = 502


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

        exporter = CountingExporter(
            endpoint, headers=dict(headers) if headers else None, timeout=timeout_s, session=self._session()
        )
        provider = TracerProvider(
            resource=Resource.create({"service.name": service_name}), id_generator=cast(Any, ids), shutdown_on_exit=True
        )
        provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=50))
        logging.getLogger("opentelemetry.exporter.otlp").addFilter(_limit_repeats)
        return provider

    def _session(self) -> requests.Session:
        """Return a session in which only the answer of an OTLP receiver is a success."""
        import requests

        session = requests.Session()
        session.hooks["response"] = [self._check]
        return session

    def _check(self, response: requests.Response, **_: Any) -> None:
        """Turn the answer of a captive portal or a proxy into an error, because it has stored nothing."""
        # The SDK takes any answer below 400 as a success, and redirects would turn the POST into a GET.
        if response.status_code >= 400:
            return
        rejected = rejected_spans(response.headers.get("Content-Type", ""), response.content)
        if response.status_code >= 300 or rejected is None:
            response.reason = f"HTTP {response.status_code}, but no OTLP receiver answers at this address"
            response.status_code = _NOT_A_RECEIVER
        elif rejected:
            self.failures += 1
            log_problem("compact", f"The OpenTelemetry receiver rejected {rejected:,} spans.")


def rejected_spans(content_type: str, body: bytes) -> int | None:
    """Return the number of rejected spans in a receiver's answer, or None if it is no answer to an export."""
    from google.protobuf.json_format import ParseDict, ParseError
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    # A success without anything to say is an empty message, which takes no bytes.
    if not body:
        return 0
    message = ExportTraceServiceResponse()
    try:
        if "protobuf" in content_type:
            message.ParseFromString(body)
        elif "json" in content_type:
            ParseDict(json.loads(body), message)
        else:
            return None
    except (DecodeError, ParseError, ValueError, AttributeError, TypeError):
        return None
    return int(message.partial_success.rejected_spans)


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
