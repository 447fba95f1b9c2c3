"""The SDK's traces in Ariadne, and Ariadne's events in the SDK's traces.

`AriadneTracingProcessor` sends every trace and span of the SDK (agent, turn, generation, tool, handoff, guardrail)
beside ours; `AgentsSpanExporter` makes each of our events a custom span. On the agent's thread both only queue:
redaction and sending happen on others.
"""

from __future__ import annotations

import os
from typing import Any

from agents import custom_span, get_current_trace
from agents.tracing import TracingProcessor, add_trace_processor

from compact.delivery.batcher import Batcher, Sink
from compact.delivery.stderr import say
from compact.exporters import AriadneExporter
from compact.redaction.outbound import OutboundRedactor, RedactionSettings

_KINDS = {"response": "generation", "function": "tool", "mcp_tools": "tool"}
_KNOWN = {"agent", "turn", "generation", "tool", "handoff", "guardrail", "task"}
# The prompt is sent again each turn; its end is what is new.
_INPUT_TAIL = 8


def trace_to_ariadne(exporter: Any = None, *, redaction: RedactionSettings | None = None) -> AriadneTracingProcessor:
    """Send the SDK's own traces to Ariadne too, beside wherever they go now; one line at start-up."""
    processor = AriadneTracingProcessor(exporter, redaction=redaction)
    add_trace_processor(processor)
    return processor


class AriadneTracingProcessor(TracingProcessor, Sink):
    """For `add_trace_processor`; `exporter` is the manager's, or a new `AriadneExporter`."""

    def __init__(self, exporter: Any = None, *, redaction: RedactionSettings | None = None) -> None:
        self._exporter = exporter if exporter is not None else AriadneExporter()
        self._outbound = OutboundRedactor(redaction)
        self._batcher = Batcher(self, max_queue=16_384, max_batch=256, interval_s=0.02, name="compact-agents-sdk")

    def on_trace_start(self, trace: Any) -> None:
        self._put(_trace(trace))

    def on_trace_end(self, trace: Any) -> None:
        self._put({**_trace(trace), "ended_at": _now()})

    def on_span_start(self, span: Any) -> None:
        if not _is_ours(span):
            self._put(_span(span, is_ended=False))

    def on_span_end(self, span: Any) -> None:
        if not _is_ours(span):
            self._put(_span(span, is_ended=True))

    def force_flush(self) -> None:
        self._batcher.flush(2.0)
        if hasattr(self._exporter, "flush"):
            self._exporter.flush(2.0)

    def shutdown(self) -> None:
        self.accept(self._batcher.close(1.0))

    # The worker's side.

    def accept(self, events: list[dict[str, Any]]) -> None:
        for event in events:
            try:
                clean = {key: self._outbound.redact_value(value) for key, value in event.items() if key in _CONTENT}
                self._exporter.emit({**event, **clean})
            except Exception as error:
                say("Ariadne", f"a span of the Agents SDK could not be sent: {type(error).__name__}: {error}")

    def _put(self, event: dict[str, Any]) -> None:
        self._batcher.put({key: value for key, value in event.items() if value is not None})


_SAID = ("input", "output", "type")
_CONTENT = ("name", "data", "payload", "metadata")


class AgentsSpanExporter:
    """Each of our events as a custom span under the SDK's current one; outside a traced run it does nothing."""

    def emit(self, event: dict[str, Any]) -> None:
        # A check is sent open and then ended: as a span it is one, and only its end says anything.
        if event.get("event") == "compact.check" and not event.get("ended_at"):
            return
        trace = get_current_trace()
        if trace is None or trace.trace_id in ("", "no-op"):
            return
        data = dict(event.get("properties") or {})
        data.update(session_id=event.get("session_id"), compact_span_id=event.get("span_id"))
        span = custom_span(str(event.get("event", "compact")), data=data)
        span.start()
        if event.get("status") == "error":
            message = str(data.get("message", "error"))
            span.set_error({"message": message, "data": {"error_type": data.get("error_type")}})
        span.finish()


def _is_ours(span: Any) -> bool:
    """Our own custom spans: the exporter has sent their events already."""
    data = getattr(span.span_data, "data", None)
    return isinstance(data, dict) and "compact_span_id" in data


def _trace(trace: Any) -> dict[str, Any]:
    exported = trace.export() or {}
    metadata = exported.get("metadata")
    return {
        "type": "trace",
        "trace_id": trace.trace_id,
        "name": trace.name,
        "group_id": exported.get("group_id"),
        "metadata": metadata if metadata else None,
    }


def _span(span: Any, *, is_ended: bool) -> dict[str, Any]:
    data = span.span_data
    kind = _KINDS.get(data.type, data.type)
    event: dict[str, Any] = {
        "type": "span",
        "trace_id": span.trace_id,
        "span_id": span.span_id,
        "parent_id": span.parent_id,
        "kind": kind if kind in _KNOWN else "custom",
        "name": _name(data),
        "started_at": span.started_at,
    }
    if not is_ended:
        return event
    event["ended_at"] = span.ended_at
    event["data"] = _facts(data)
    payload = _payload(data)
    if payload:
        event["payload"] = payload
    event["status"] = "ok"
    if span.error:
        event["status"] = "error"
        event["data"]["error"] = dict(span.error)
    return event


def _name(data: Any) -> str:
    match data.type:
        case "turn":
            return f"turn {data.turn}"
        case "handoff":
            return f"{data.from_agent} → {data.to_agent}"
        case "generation" | "response":
            response = getattr(data, "response", None)
            return str(getattr(data, "model", None) or getattr(response, "model", None) or data.type)
    return str(getattr(data, "name", None) or data.type)


def _facts(data: Any) -> dict[str, Any]:
    exported = data.export()
    told = exported["data"] if data.type in ("task", "turn") else exported
    facts = {key: value for key, value in told.items() if key not in _SAID and value is not None}
    response = getattr(data, "response", None)
    if response is not None:
        facts["model"] = getattr(response, "model", None)
    return facts


def _payload(data: Any) -> dict[str, Any]:
    """What was said, if the SDK may record it: input and output, the long input only by its end."""
    payload: dict[str, Any] = {}
    given = getattr(data, "input", None)
    if isinstance(given, (list, tuple)):
        payload["input"] = [_plain(item) for item in given[-_INPUT_TAIL:]]
        payload["input_items"] = len(given)
    elif given is not None:
        payload["input"] = str(given)
    made = getattr(data, "output", None)
    response = getattr(data, "response", None)
    if made is None and response is not None and os.environ.get("OPENAI_AGENTS_DONT_LOG_MODEL_DATA") != "1":
        made = [_plain(item) for item in getattr(response, "output", None) or ()]
    if made is not None:
        payload["output"] = made if isinstance(made, list) else str(made)
    return payload


def _plain(item: Any) -> Any:
    return item.model_dump(exclude_unset=True) if hasattr(item, "model_dump") else item


def _now() -> str:
    from compact.events import iso, utc_now

    return iso(utc_now())
