"""Write the manager's events into the SDK's own traces."""

from __future__ import annotations

from typing import Any

from agents import custom_span, get_current_trace

from compact.events import CheckEvent


class AgentsSpanExporter:
    """Exports each event as a custom span under the SDK's current span. Does nothing outside a traced run."""

    def emit(self, event: dict[str, Any]) -> None:
        """Write one event as a finished span."""
        # A check is emitted twice, and only its second event has the results.
        if event.get("event") == CheckEvent.name and not event.get("ended_at"):
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
