"""The manager and the session of a run. Nothing here changes while runs use it, so any number of runs may share it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from agents import Trace, get_current_span, get_current_trace

from compact import events
from compact.exporters import MultiExporter
from compact.integrations.agents_sdk.span_exporter import AgentsSpanExporter
from compact.integrations.model_call import (
    CallOptions,
    ModelCall,
    new_session_id,
    usage_of,
    warn_once,
    warn_unidentified,
)
from compact.manager import CompactManager

SessionId = str | Callable[[], str] | None
_FIX = "Pass session=… or session_id=… to compacting(), or group_id=… to RunConfig."
# The SDK creates a trace object for each run, also if tracing is disabled. Then it is the only mark of a run.
_session_ids: WeakKeyDictionary[Trace, str] = WeakKeyDictionary()
_session_ids_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class RunContext:
    """The manager of some runs, and how to find the session of each."""

    manager: CompactManager
    session_id: SessionId = None

    def __post_init__(self) -> None:
        mirror_to_sdk(self.manager)

    def session(self) -> str:
        """Return the configured session id, else the group of the current trace, else an id of this run alone."""
        if self.session_id:
            return self.session_id() if callable(self.session_id) else self.session_id
        trace = get_current_trace()
        exported = (trace.export() if trace is not None else None) or {}
        if exported.get("group_id"):
            return str(exported["group_id"])
        session_id = str(exported.get("id") or _own_session_id(trace))
        warn_unidentified(self.manager, session_id, _FIX)
        return session_id

    def model_call(self, items: Sequence[Any], *, tools: list[Any], instructions: Any, output_schema: Any) -> ModelCall:
        """Return a model call whose events become children of the SDK's current span."""
        options: CallOptions = {
            "tools": tools,
            "instructions": instructions,
            "output_schema": output_schema,
            "format": "responses",
        }
        return ModelCall(
            self.manager,
            self.session(),
            list(items),
            options=lambda: options,
            read_usage=read_usage,
            scope=under_current_span,
        )

    def warn(self, code: events.WarningCode, message: str, *, severity: events.Severity = "medium") -> None:
        """Warn once per manager, on stderr and as a `compact.warning` event."""
        warn_once(self.manager, self.session(), code, message, severity=severity)

    def warn_server_managed(self) -> None:
        """Warn that the server keeps the conversation."""
        self.warn(
            "server_managed",
            "The server keeps this conversation (conversation_id or previous_response_id) and receives only "
            "new items, so there is nothing to compact.",
        )


def read_usage(response: Any) -> Any:
    """Return the token counts of a response, or None if the provider did not send any."""
    usage = usage_of(response)
    return usage if usage is not None and usage.input_tokens else None


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


def _own_session_id(trace: Trace | None) -> str:
    """Return the id of the run that created the trace. Without a trace, each call is a run."""
    if trace is None:
        return new_session_id("agents-sdk")
    with _session_ids_lock:
        return _session_ids.setdefault(trace, new_session_id("agents-sdk"))


def _has_span_exporter(exporter: Any) -> bool:
    if isinstance(exporter, MultiExporter):
        return any(_has_span_exporter(child) for child in exporter.exporters)
    return isinstance(exporter, AgentsSpanExporter)
