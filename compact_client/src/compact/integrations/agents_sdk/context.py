"""What the filter, the model wrapper and the hooks of one run share: whose session it is, and which tools it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from agents import get_current_span, get_current_trace

from compact import events
from compact.delivery.stderr import say
from compact.exporters import MultiExporter
from compact.integrations.agents_sdk.tracing import AgentsSpanExporter
from compact.manager import CompactManager

SessionId = str | Callable[[], str] | None


@dataclass
class RunContext:
    """The manager, the session, and what was learnt about the run so far."""

    manager: CompactManager
    session_id: SessionId = None
    tools: dict[str, list[Any]] = field(default_factory=dict)
    """By agent name, as the model last saw them; hosted and MCP tools included."""
    output_schemas: dict[str, Any] = field(default_factory=dict)
    shown: list[Any] = field(default_factory=list)
    """The input as the SDK had it, before the last check."""
    is_server_managed: bool = False
    announced: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        mirror_to_sdk(self.manager)

    def session(self) -> str:
        """The id given, else the trace's group, else the trace itself."""
        if callable(self.session_id):
            return self.session_id()
        if self.session_id:
            return self.session_id
        trace = get_current_trace()
        exported = (trace.export() if trace is not None else None) or {}
        return str(exported.get("group_id") or exported.get("id") or "agents-sdk")

    def announce(self, code: str, message: str, *, severity: str = "medium") -> None:
        """Say something once a run: on stderr, and as a `compact.warning` event."""
        if code in self.announced:
            return
        self.announced.add(code)
        say("compact", message)
        exporter = self.manager.cfg.exporter
        if exporter is None:
            return
        now = events.iso(events.utc_now())
        exporter.emit(
            {
                "ts": now,
                "session_id": self.session(),
                "event": events.WARNING,
                "status": "ok",
                "properties": {"severity": severity, "code": code, "message": message},
            }
        )


@contextmanager
def under_current_span() -> Iterator[None]:
    """Events of a check become children of the span the SDK is in."""
    trace, span = get_current_trace(), get_current_span()
    is_real = trace is not None and trace.trace_id not in ("", "no-op")
    token = None
    if is_real and trace is not None:
        span_id = span.span_id if span is not None and span.span_id != "no-op" else None
        token = events.parent_span.set((trace.trace_id, span_id))
    try:
        yield
    finally:
        if token is not None:
            events.parent_span.reset(token)


def mirror_to_sdk(manager: CompactManager) -> None:
    """Have the manager's events also become custom spans of the SDK; once a manager."""
    if not _mirrors(manager.cfg.exporter):
        manager.add_exporter(AgentsSpanExporter())


def _mirrors(exporter: Any) -> bool:
    if isinstance(exporter, MultiExporter):
        return any(_mirrors(one) for one in exporter.exporters)
    return isinstance(exporter, AgentsSpanExporter)
