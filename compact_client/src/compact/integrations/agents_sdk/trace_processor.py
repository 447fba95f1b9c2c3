"""Send the SDK's own traces and spans to Ariadne: agents, turns, generations, tools, handoffs and guardrails.

The agent's thread only puts events into a queue. Redaction and sending happen on a worker thread.
"""

from __future__ import annotations

import atexit
import os
from typing import Any

from agents.tracing import TracingProcessor, add_trace_processor

from compact.delivery.batcher import Batcher, Sink
from compact.delivery.stderr import log_problem
from compact.events import iso, utc_now
from compact.exporters import AriadneExporter
from compact.exporters.redaction import RedactingExporter
from compact.redaction.outbound import OutboundRedactor, RedactionSettings

# SDK span types with a different name in Ariadne.
_KINDS = {"response": "generation", "function": "tool", "mcp_tools": "tool"}
_KNOWN_KINDS = {"agent", "turn", "generation", "tool", "handoff", "guardrail", "task"}
# Each request repeats the whole prompt, so only its last items are sent.
_INPUT_TAIL = 8


def trace_to_ariadne(exporter: Any = None, *, redaction: RedactionSettings | None = None) -> AriadneTracingProcessor:
    """Send the SDK's traces to Ariadne, in addition to where they go now. Call it once at startup."""
    processor = AriadneTracingProcessor(exporter, redaction=redaction)
    add_trace_processor(processor)
    return processor


class AriadneTracingProcessor(TracingProcessor, Sink):
    """A processor for `add_trace_processor`. Pass the manager's exporter, or omit it for a new `AriadneExporter`."""

    def __init__(self, exporter: Any = None, *, redaction: RedactionSettings | None = None) -> None:
        self._exporter = exporter if exporter is not None else AriadneExporter()
        self._redacting_exporter = RedactingExporter(self._exporter, OutboundRedactor(redaction))
        self._batcher = Batcher(self, max_queue=16_384, max_batch=256, interval_s=0.02, name="compact-agents-sdk")
        # Runs before the exporter closes, which was created earlier. The SDK may shut its processors down later.
        atexit.register(self.shutdown)

    def on_trace_start(self, trace: Any) -> None:
        self._put(_trace_event(trace))

    def on_trace_end(self, trace: Any) -> None:
        self._put({**_trace_event(trace), "ended_at": iso(utc_now())})

    def on_span_start(self, span: Any) -> None:
        if not _is_compact_span(span):
            self._put(_start_event(span))

    def on_span_end(self, span: Any) -> None:
        if not _is_compact_span(span):
            self._put(_end_event(span))

    def force_flush(self) -> None:
        self._batcher.flush(2.0)
        if hasattr(self._exporter, "flush"):
            self._exporter.flush(2.0)

    def shutdown(self) -> None:
        atexit.unregister(self.shutdown)
        self.accept(self._batcher.close(1.0))

    def accept(self, events: list[dict[str, Any]]) -> None:
        """Redact and emit events. Runs on the worker thread."""
        for event in events:
            try:
                self._redacting_exporter.emit(event)
            except Exception as error:
                log_problem("Ariadne", f"Could not send a span of the Agents SDK: {type(error).__name__}: {error}")

    def _put(self, event: dict[str, Any]) -> None:
        self._batcher.put({key: value for key, value in event.items() if value is not None})


def _is_compact_span(span: Any) -> bool:
    """Return True for a custom span of `AgentsSpanExporter`. The manager's exporter has already sent its event."""
    data = getattr(span.span_data, "data", None)
    return isinstance(data, dict) and "compact_span_id" in data


def _trace_event(trace: Any) -> dict[str, Any]:
    exported = trace.export() or {}
    return {
        "type": "trace",
        "trace_id": trace.trace_id,
        "name": trace.name,
        "group_id": exported.get("group_id"),
        "metadata": exported.get("metadata") or None,
    }


def _start_event(span: Any) -> dict[str, Any]:
    data = span.span_data
    kind = _KINDS.get(data.type, data.type)
    return {
        "type": "span",
        "trace_id": span.trace_id,
        "span_id": span.span_id,
        "parent_id": span.parent_id,
        "kind": kind if kind in _KNOWN_KINDS else "custom",
        "name": _name(data),
        "started_at": span.started_at,
    }


def _end_event(span: Any) -> dict[str, Any]:
    data = _metadata(span.span_data)
    if span.error:
        data["error"] = dict(span.error)
    return {
        **_start_event(span),
        "ended_at": span.ended_at,
        "data": data,
        "payload": _payload(span.span_data) or None,
        "status": "error" if span.error else "ok",
    }


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


def _metadata(data: Any) -> dict[str, Any]:
    """Return everything that a span records except its input and output."""
    exported = data.export()
    fields = exported["data"] if data.type in ("task", "turn") else exported
    metadata = {
        key: value for key, value in fields.items() if key not in ("input", "output", "type") and value is not None
    }
    response = getattr(data, "response", None)
    if response is not None:
        metadata["model"] = getattr(response, "model", None)
    return metadata


def _payload(data: Any) -> dict[str, Any]:
    """Return the input and the output of a span, as far as the SDK may record them."""
    payload: dict[str, Any] = {}
    input_ = getattr(data, "input", None)
    if isinstance(input_, (list, tuple)):
        payload["input"] = [_plain(item) for item in input_[-_INPUT_TAIL:]]
        payload["input_items"] = len(input_)
    elif input_ is not None:
        payload["input"] = str(input_)
    output = _output(data)
    if output is not None:
        payload["output"] = output if isinstance(output, list) else str(output)
    return payload


def _output(data: Any) -> Any:
    output = getattr(data, "output", None)
    response = getattr(data, "response", None)
    if output is not None or response is None or os.environ.get("OPENAI_AGENTS_DONT_LOG_MODEL_DATA") == "1":
        return output
    return [_plain(item) for item in getattr(response, "output", None) or ()]


def _plain(item: Any) -> Any:
    return item.model_dump(exclude_unset=True) if hasattr(item, "model_dump") else item
