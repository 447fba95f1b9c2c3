"""Compaction in OpenTelemetry: one `before_model_call` span a check, each event a span event on it.

Inside an application that has set up the OpenTelemetry SDK, its tracer provider is used and the span becomes a child of
whatever span is current; alone, this exporter brings a provider of its own and sends OTLP over HTTP. Spans are built on
a thread of ours: the agent pays for a queue, and nothing here raises into it.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from compact.delivery.batcher import Batcher, Sink
from compact.delivery.stderr import say

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider as SDKTracerProvider
    from opentelemetry.trace import SpanContext, TracerProvider

SPAN_NAME = "before_model_call"
_MAX_OPEN = 1_000
_HEX = re.compile(r"[0-9a-f]+\Z")


class OTLPExporter(Sink):
    """`OTLPExporter(endpoint="http://127.0.0.1:4318/v1/traces")`; with no argument, the application's own provider.

    `endpoint` and `headers` default to what the OTEL_EXPORTER_OTLP_* environment says. `include_payload` adds summaries
    and ledgers as JSON text: off by default, for other people's receivers store what they are sent.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        tracer_provider: TracerProvider | None = None,
        service_name: str = "compact",
        include_payload: bool = False,
        timeout_s: float = 2.0,
        exit_timeout_s: float = 2.0,
    ) -> None:
        from opentelemetry.context import get_current

        self._get_context = get_current
        self._include_payload = include_payload
        self._exit_timeout_s = exit_timeout_s
        self._own: SDKTracerProvider | None = None
        self._ids = _Ids()
        self._failed: list[int] = []
        provider = tracer_provider or (None if endpoint else _application_provider())
        if provider is None:
            provider = self._own = _own_provider(endpoint, headers, service_name, timeout_s, self._ids, self._failed)
        self._tracer = provider.get_tracer("compact")
        # Events of a check wait for its end, by the id of the check's span.
        self._waiting: OrderedDict[str, list[dict[str, Any]]] = OrderedDict()
        self._ended: OrderedDict[str, SpanContext] = OrderedDict()
        self._batcher = Batcher(self, max_queue=16_384, max_batch=512, interval_s=0.05, name="compact-otlp")
        # After the provider's own, so that it runs before: what it gives the provider is still sent.
        atexit.register(self.close)

    def emit(self, event: dict[str, Any]) -> None:
        """Queue the event with the context that is current here."""
        self._batcher.put({"event": event, "context": self._get_context()})

    def flush(self, timeout_s: float = 2.0) -> bool:
        """Wait until all events are spans and, if the provider is our own, taken by the receiver."""
        failures = self._failures()
        if not self._batcher.flush(timeout_s):
            return False
        if self._own is None:
            return True
        # The SDK calls a flush done even when the receiver refused.
        return bool(self._own.force_flush(int(timeout_s * 1000))) and self._failures() == failures

    def close(self) -> None:
        """Send what is left and, if the provider is our own, shut it down."""
        atexit.unregister(self.close)
        rest = self._batcher.close(self._exit_timeout_s)
        self.accept(rest)
        for waiting in list(self._waiting.values()):
            self._loose(waiting, None)
        self._waiting.clear()
        if self._own is not None:
            # With a dead receiver the SDK's shutdown may take long: it gets a thread and a deadline.
            thread = threading.Thread(target=self._own.shutdown, daemon=True)
            thread.start()
            thread.join(self._exit_timeout_s)

    def _failures(self) -> int:
        return len(self._failed)

    # The worker's side.

    def accept(self, events: list[dict[str, Any]]) -> None:
        for item in events:
            try:
                self._take(item["event"], item["context"])
            except Exception as error:
                say("compact", f"an event could not become an OpenTelemetry span: {type(error).__name__}: {error}")

    def after_fork(self) -> None:
        self._waiting.clear()

    def _take(self, event: dict[str, Any], context: Context) -> None:
        name, span_id, parent_id = event.get("event"), event.get("span_id"), event.get("parent_id")
        if name == "compact.check":
            if event.get("ended_at"):
                self._check(event, context)
            return
        if parent_id in self._ended or not (parent_id and span_id):
            self._loose([event], context)
            return
        self._waiting.setdefault(str(parent_id), []).append(event)
        if len(self._waiting) > _MAX_OPEN:
            self._loose(self._waiting.popitem(last=False)[1], context)

    def _check(self, check: dict[str, Any], context: Context) -> None:
        span_id = str(check.get("span_id"))
        events = self._waiting.pop(span_id, [])
        self._ids.next = (check.get("trace_id"), check.get("span_id"))
        span = self._tracer.start_span(
            SPAN_NAME, context, attributes=self._attributes(check), start_time=_nanoseconds(check.get("started_at"))
        )
        for event in events:
            span.add_event(
                str(event["event"]),
                self._attributes(event),
                timestamp=_nanoseconds(event.get("ts") or event.get("started_at")),
            )
        failed = next((event for event in [check, *events] if event.get("status") == "error"), None)
        if failed is not None:
            _mark(span, failed)
        span.end(_nanoseconds(check.get("ended_at")))
        self._ended[span_id] = span.get_span_context()
        if len(self._ended) > _MAX_OPEN:
            self._ended.popitem(last=False)

    def _loose(self, events: list[dict[str, Any]], context: Context | None) -> None:
        """Events that belong to no open check become short spans of their own."""
        from opentelemetry.trace import NonRecordingSpan, set_span_in_context

        for event in events:
            parent = self._ended.get(str(event.get("parent_id")))
            where = set_span_in_context(NonRecordingSpan(parent)) if parent else context
            self._ids.next = (event.get("trace_id"), event.get("span_id"))
            start = _nanoseconds(event.get("started_at") or event.get("ts"))
            span = self._tracer.start_span(
                str(event.get("event", "compact")), where, attributes=self._attributes(event), start_time=start
            )
            if event.get("status") == "error":
                _mark(span, event)
            span.end(_nanoseconds(event.get("ended_at")) or start)

    def _attributes(self, event: dict[str, Any]) -> dict[str, Any]:
        properties = event.get("properties") or {}
        attributes = dict(_flat("compact", properties))
        if event.get("session_id"):
            attributes["gen_ai.conversation.id"] = str(event["session_id"])
        if properties.get("model"):
            attributes["gen_ai.request.model"] = str(properties["model"])
        if properties.get("source") == "provider" and isinstance(properties.get("t_est"), int):
            attributes["gen_ai.usage.input_tokens"] = properties["t_est"]
        if event.get("event") == "compact.check" and "triggered" in properties:
            attributes["gen_ai.conversation.compacted"] = bool(properties["triggered"])
        if self._include_payload and event.get("payload") is not None:
            attributes["compact.payload"] = json.dumps(event["payload"], default=str)
        return attributes


class _Ids:
    """Spans of our own provider keep the ids of their events, so that two exporters tell of the same span."""

    next: tuple[Any, Any] = (None, None)

    def is_trace_id_random(self) -> bool:
        return False

    def generate_trace_id(self) -> int:
        return _number(self.next[0], 32)

    def generate_span_id(self) -> int:
        return _number(self.next[1], 16)


def _number(identifier: Any, digits: int) -> int:
    text = str(identifier or "").removeprefix("trace_").removeprefix("span_").replace("-", "").lower()
    if len(text) == digits and _HEX.match(text) and int(text, 16):
        return int(text, 16)
    if not text:
        import secrets

        return secrets.randbits(digits * 4) or 1
    return int(hashlib.sha256(text.encode()).hexdigest()[:digits], 16) or 1


def _application_provider() -> TracerProvider | None:
    from opentelemetry import trace

    provider = trace.get_tracer_provider()
    # Without set-up the API hands out a proxy that records nothing.
    return provider if hasattr(provider, "add_span_processor") else None


def _own_provider(
    endpoint: str | None,
    headers: Mapping[str, str] | None,
    service_name: str,
    timeout_s: float,
    ids: _Ids,
    failed: list[int],
) -> SDKTracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

    class Noting(OTLPSpanExporter):
        def export(self, spans: Sequence[Any]) -> SpanExportResult:
            result = super().export(spans)
            if result is not SpanExportResult.SUCCESS:
                failed.append(len(spans))
            return result

    exporter = Noting(endpoint, headers=dict(headers) if headers else None, timeout=timeout_s)
    provider = TracerProvider(
        resource=Resource.create({"service.name": service_name}), id_generator=cast(Any, ids), shutdown_on_exit=True
    )
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=50))
    logging.getLogger("opentelemetry.exporter.otlp").addFilter(_once_a_minute)
    return provider


def _once_a_minute(record: logging.LogRecord) -> bool:
    last = _last_logged.get(record.msg, 0.0)
    if record.created - last < 60:
        return False
    _last_logged[record.msg] = record.created
    return True


_last_logged: dict[str, float] = {}


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Nested properties as dotted attributes, for an attribute holds no dict."""
    if value is None:
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(f"{prefix}.{key}", item)
    elif isinstance(value, (str, bool, int, float)):
        yield prefix, value
    elif isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        yield prefix, tuple(value)
    else:
        yield prefix, json.dumps(value, default=str)


def _nanoseconds(moment: Any) -> int | None:
    if isinstance(moment, (int, float)):
        return int(moment * 1e9)
    if not isinstance(moment, str):
        return None
    try:
        parsed = datetime.fromisoformat(moment)
    except ValueError:
        return None
    seconds = int(parsed.replace(microsecond=0).timestamp())
    return seconds * 1_000_000_000 + parsed.microsecond * 1_000


def _mark(span: Any, event: dict[str, Any]) -> None:
    from opentelemetry.trace import Status, StatusCode

    properties = event.get("properties") or {}
    span.set_status(Status(StatusCode.ERROR, str(properties.get("message", ""))))
    if properties.get("error_type"):
        span.set_attribute("error.type", str(properties["error_type"]))
