"""Export events to OpenTelemetry: one `before_model_call` span per check, with the check's events as span events.

In an application that has set up the OpenTelemetry SDK, the exporter uses the application's tracer provider, and the
span becomes a child of the current span. Otherwise it creates a provider that sends OTLP over HTTP. A worker thread
builds the spans, so `emit` only appends to a queue. Nothing here raises into the agent.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from compact.delivery.batcher import Batcher, Sink
from compact.delivery.counts import Counts
from compact.delivery.process_exit import add_exit_handler, remove_exit_handler
from compact.delivery.stderr import log_problem
from compact.events import CheckEvent
from compact.exporters.otlp_provider import EventIds, OwnProvider, application_provider

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanContext, Tracer, TracerProvider

SPAN_NAME = "before_model_call"
_MAX_CHECKS = 1_000


class OTLPExporter:
    """Exports events as OpenTelemetry spans: `OTLPExporter(endpoint="http://127.0.0.1:4318/v1/traces")`.

    Without arguments it uses the application's tracer provider. `endpoint` and `headers` default to the
    OTEL_EXPORTER_OTLP_* environment variables. `include_payload` adds summaries and ledgers as JSON text. It is off by
    default, because receivers store what they are sent.
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
        self._exit_timeout_s = exit_timeout_s
        self._counts = Counts()
        self._is_closed = False
        self._own: OwnProvider | None = None
        ids = EventIds()
        provider = tracer_provider or (None if endpoint else application_provider())
        if provider is None:
            self._own = OwnProvider(endpoint, headers=headers, service_name=service_name, timeout_s=timeout_s, ids=ids)
            provider = self._own.provider
        self._spans = _SpanBuilder(
            provider.get_tracer("compact"),
            ids,
            include_payload=include_payload,
            own_provider=self._own,
            counts=self._counts,
        )
        self._queue = Batcher(self._spans, max_queue=16_384, max_batch=512, interval_s=0.05, name="compact-otlp")
        # Registered after the provider's own handler, so it runs first and its spans are still sent.
        add_exit_handler(self.close)

    def emit(self, event: dict[str, Any]) -> None:
        """Queue the event together with the current context."""
        if not self._queue.put({"event": event, "context": self._get_context()}):
            self._counts.drop(1)
            if self._counts.dropped == 1:
                log_problem("compact", "The queue of the OpenTelemetry exporter is full or closed. Events are dropped.")

    def stats(self) -> dict[str, int]:
        """Return the number of events that were dropped and of exports that failed since this process started."""
        return {"dropped": self._counts.dropped, "failures": self._own.failures if self._own is not None else 0}

    def flush(self, timeout_s: float = 2.0) -> bool:
        """Wait until every event is a span and, with an own provider, exported. Return False on timeout or failure."""
        if self._own is None:
            return self._queue.flush(timeout_s)
        failures = self._own.failures
        is_flushed = self._queue.flush(timeout_s) and self._own.provider.force_flush(int(timeout_s * 1000))
        # The SDK reports success even if the receiver rejected the spans.
        return is_flushed and self._own.failures == failures

    def close(self) -> None:
        """Export the remaining events and shut down the exporter's own provider."""
        if self._is_closed:
            return
        self._is_closed = True
        remove_exit_handler(self.close)
        if self._counts.dropped:
            log_problem("compact", f"{self._counts.dropped:,} events were dropped because the queue was full.")
        # The SDK's shutdown can hang if the receiver is unreachable. The worker runs it, so that the deadline applies,
        # because no thread can be started when the interpreter exits.
        self._spans.accept(self._queue.close(self._exit_timeout_s))
        if not self._spans.has_exported:
            self._spans.stop()


class _SpanBuilder(Sink):
    """Turns events into spans on the worker thread."""

    def __init__(
        self,
        tracer: Tracer,
        ids: EventIds,
        *,
        include_payload: bool,
        own_provider: OwnProvider | None,
        counts: Counts,
    ) -> None:
        self._counts = counts
        self.has_exported = False
        self._tracer = tracer
        self._ids = ids
        self._own_provider = own_provider
        self._include_payload = include_payload
        # Events of checks that have not ended, and the contexts of those that have, by the id of the check's span.
        self._open: OrderedDict[str, list[dict[str, Any]]] = OrderedDict()
        self._ended: OrderedDict[str, SpanContext] = OrderedDict()

    def accept(self, events: list[dict[str, Any]]) -> None:
        self.has_exported = self.has_exported or bool(events)
        for item in events:
            try:
                self._add(item["event"], item["context"])
            except Exception as error:
                log_problem("compact", f"Cannot export an event to OpenTelemetry: {type(error).__name__}: {error}")

    def after_fork(self) -> None:
        self._counts.reset()
        self._open.clear()

    def stop(self) -> None:
        """Export the events of checks that never ended, and shut down the exporter's own provider."""
        for events in list(self._open.values()):
            self._export_single(events, None)
        self._open.clear()
        if self._own_provider is not None:
            self._own_provider.provider.shutdown()

    def _add(self, event: dict[str, Any], context: Context) -> None:
        if event.get("event") == CheckEvent.name:
            if event.get("ended_at"):
                self._export_check(event, context)
            return
        parent_id = event.get("parent_id")
        if parent_id in self._ended or not (parent_id and event.get("span_id")):
            self._export_single([event], context)
            return
        self._open.setdefault(str(parent_id), []).append(event)
        if len(self._open) > _MAX_CHECKS:
            self._export_single(self._open.popitem(last=False)[1], context)

    def _export_check(self, check: dict[str, Any], context: Context) -> None:
        """Export a check as one span, with its events as span events."""
        span_id = str(check.get("span_id"))
        events = self._open.pop(span_id, [])
        self._ids.next = (check.get("trace_id"), check.get("span_id"))
        span = self._tracer.start_span(
            SPAN_NAME, context, attributes=self._attributes(check), start_time=_nanoseconds(check.get("started_at"))
        )
        for event in events:
            timestamp = _nanoseconds(event.get("ts") or event.get("started_at"))
            span.add_event(str(event["event"]), self._attributes(event), timestamp=timestamp)
        failed = next((event for event in [check, *events] if event.get("status") == "error"), None)
        if failed is not None:
            _set_error(span, failed)
        span.end(_nanoseconds(check.get("ended_at")))
        self._ended[span_id] = span.get_span_context()
        if len(self._ended) > _MAX_CHECKS:
            self._ended.popitem(last=False)

    def _export_single(self, events: list[dict[str, Any]], context: Context | None) -> None:
        """Export each event as its own span, for events without an open check."""
        from opentelemetry.trace import NonRecordingSpan, set_span_in_context

        for event in events:
            parent = self._ended.get(str(event.get("parent_id")))
            parent_context = set_span_in_context(NonRecordingSpan(parent)) if parent else context
            self._ids.next = (event.get("trace_id"), event.get("span_id"))
            start = _nanoseconds(event.get("started_at") or event.get("ts"))
            span = self._tracer.start_span(
                str(event.get("event", "compact")),
                parent_context,
                attributes=self._attributes(event),
                start_time=start,
            )
            if event.get("status") == "error":
                _set_error(span, event)
            span.end(_nanoseconds(event.get("ended_at")) or start)

    def _attributes(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return the properties of an event as attributes, with the `gen_ai.*` names where they exist."""
        properties = event.get("properties") or {}
        attributes = dict(_flatten("compact", properties))
        if event.get("session_id"):
            attributes["gen_ai.conversation.id"] = str(event["session_id"])
        if properties.get("model"):
            attributes["gen_ai.request.model"] = str(properties["model"])
        if properties.get("source") == "provider" and isinstance(properties.get("t_est"), int):
            attributes["gen_ai.usage.input_tokens"] = properties["t_est"]
        if event.get("event") == CheckEvent.name and "triggered" in properties:
            attributes["gen_ai.conversation.compacted"] = bool(properties["triggered"])
        if self._include_payload and event.get("payload") is not None:
            attributes["compact.payload"] = json.dumps(event["payload"], default=str)
        return attributes


def _flatten(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield nested properties under dotted names, because an attribute cannot be a mapping."""
    if value is None:
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flatten(f"{prefix}.{key}", item)
    elif isinstance(value, (str, bool, int, float)):
        yield prefix, value
    elif isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        yield prefix, tuple(value)
    else:
        yield prefix, json.dumps(value, default=str)


def _nanoseconds(moment: Any) -> int | None:
    """Return an ISO 8601 time or Unix seconds as Unix nanoseconds."""
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


def _set_error(span: Any, event: dict[str, Any]) -> None:
    from opentelemetry.trace import Status, StatusCode

    properties = event.get("properties") or {}
    span.set_status(Status(StatusCode.ERROR, str(properties.get("message", ""))))
    if properties.get("error_type"):
        span.set_attribute("error.type", str(properties["error_type"]))
