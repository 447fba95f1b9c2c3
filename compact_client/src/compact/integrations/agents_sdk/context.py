"""State that the input filter, the model wrapper and the hooks of one run share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from agents import get_current_span, get_current_trace

from compact import events
from compact.delivery.stderr import say
from compact.exporters import MultiExporter
from compact.integrations.agents_sdk.span_exporter import AgentsSpanExporter
from compact.integrations.model_call import CallOptions, ModelCall
from compact.manager import CompactManager

SessionId = str | Callable[[], str] | None


@dataclass
class RunContext:
    """The manager, the session, and the tools and output schemas that the run's models have received so far."""

    manager: CompactManager
    session_id: SessionId = None
    tools: dict[str, list[Any]] = field(default_factory=dict)
    """Tools by agent name, as the model last received them, including hosted and MCP tools."""
    output_schemas: dict[str, Any] = field(default_factory=dict)
    call: ModelCall | None = None
    """The model call that the input filter has prepared for the next request."""
    is_server_managed: bool = False
    warned_codes: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        mirror_to_sdk(self.manager)

    def session(self) -> str:
        """Return the configured session id, else the group of the current trace, else the trace id."""
        if callable(self.session_id):
            return self.session_id()
        if self.session_id:
            return self.session_id
        trace = get_current_trace()
        exported = (trace.export() if trace is not None else None) or {}
        return str(exported.get("group_id") or exported.get("id") or "agents-sdk")

    def model_call(self, items: Sequence[Any], *, tools: list[Any], instructions: Any, output_schema: Any) -> ModelCall:
        """Return a model call whose events become children of the SDK's current span."""
        options: CallOptions = {
            "tools": tools,
            "instructions": instructions,
            "output_schema": output_schema,
            "format": "responses",
        }
        # The hooks report usage. They receive it for streamed responses too.
        return ModelCall(
            self.manager,
            self.session(),
            list(items),
            options=lambda: options,
            read_usage=lambda _: None,
            scope=under_current_span,
        )

    def warn(self, code: events.WarningCode, message: str, *, severity: events.Severity = "medium") -> None:
        """Warn once per run, on stderr and as a `compact.warning` event."""
        if code in self.warned_codes:
            return
        self.warned_codes.add(code)
        say("compact", message)
        self.manager.emit_event(self.session(), events.WarningEvent(severity=severity, code=code, message=message))


@contextmanager
def under_current_span() -> Iterator[None]:
    """Make events children of the SDK's current span."""
    trace, span = get_current_trace(), get_current_span()
    if trace is None or trace.trace_id in ("", "no-op"):
        yield
        return
    span_id = span.span_id if span is not None and span.span_id != "no-op" else None
    token = events.parent_span.set((trace.trace_id, span_id))
    try:
        yield
    finally:
        events.parent_span.reset(token)


def mirror_to_sdk(manager: CompactManager) -> None:
    """Also write the manager's events as custom spans of the SDK. Does nothing if the manager already does."""
    if not _has_span_exporter(manager.cfg.exporter):
        manager.add_exporter(AgentsSpanExporter())


def _has_span_exporter(exporter: Any) -> bool:
    if isinstance(exporter, MultiExporter):
        return any(_has_span_exporter(child) for child in exporter.exporters)
    return isinstance(exporter, AgentsSpanExporter)
