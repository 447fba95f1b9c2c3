"""The span of one check or recall, and its events as child spans.

Events leave as plain dicts with the keys that `DESIGN.md` names. `parent_span` connects them to the host's own trace.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime
from typing import Any

from compact.events.base import Clock, Event, iso

parent_span: ContextVar[tuple[str, str | None] | None] = ContextVar("compact_parent_span", default=None)
"""Trace id and span id of the host's current span, if there is one."""

Sink = Callable[[dict[str, Any]], object]


def new_trace_id() -> str:
    """Return a random trace id of 32 hexadecimal digits."""
    return secrets.token_hex(16)


def new_span_id() -> str:
    """Return a random span id of 16 hexadecimal digits."""
    return secrets.token_hex(8)


class CheckSpan:
    """Sends the events of one check as children of one `compact.check` span. A recall has a span of its own kind.

    The span itself is sent when it ends. A check that compacts also sends it at the start, so that a viewer can show
    it as running.
    """

    def __init__(self, session_id: str, trace_id: str, event: Event, *, sink: Sink | None, clock: Clock) -> None:
        self._session_id = session_id
        parent = parent_span.get()
        self.trace_id, self._parent_id = parent if parent else (trace_id, None)
        self.span_id = new_span_id()
        self._event = event
        self._changes: dict[str, Any] = {}
        self._sink = sink
        self._clock = clock
        self._started_at = iso(clock())

    @property
    def has_listeners(self) -> bool:
        """True if the events go anywhere. Costly payloads are built only then."""
        return self._sink is not None

    def emit(
        self,
        event: Event,
        *,
        started: datetime | None = None,
        ended: datetime | None = None,
        is_error: bool | None = None,
    ) -> None:
        """Send a child event. With `started` it becomes a span with a duration, which ends now or at `ended`."""
        if self._sink is None:
            return
        ended_at = iso(ended or self._clock())
        self._send(
            event,
            span_id=new_span_id(),
            parent_id=self.span_id,
            started_at=iso(started) if started else ended_at,
            ended_at=ended_at,
            is_error=event.is_error if is_error is None else is_error,
        )

    def update(self, **changes: Any) -> None:
        """Set fields of the check's own event."""
        self._changes.update(changes)

    def open(self) -> None:
        """Send the check's span as running."""
        if self._sink is not None:
            self._send_own(None, is_error=False)

    def close(self, *, is_error: bool = False) -> None:
        """Send the check's span as ended."""
        if self._sink is not None:
            self._send_own(iso(self._clock()), is_error=is_error)

    def _send_own(self, ended_at: str | None, *, is_error: bool) -> None:
        self._send(
            replace(self._event, **self._changes),
            span_id=self.span_id,
            parent_id=self._parent_id,
            started_at=self._started_at,
            ended_at=ended_at,
            is_error=is_error,
        )

    def _send(
        self,
        event: Event,
        *,
        span_id: str,
        parent_id: str | None,
        started_at: str,
        ended_at: str | None,
        is_error: bool,
    ) -> None:
        assert self._sink is not None
        record: dict[str, Any] = {
            "ts": ended_at or started_at,
            "session_id": self._session_id,
            "event": event.name,
            "trace_id": self.trace_id,
            "span_id": span_id,
            "started_at": started_at,
            "ended_at": ended_at,
            "status": "error" if is_error else "ok",
            "properties": event.properties(),
        }
        if parent_id is not None:
            record["parent_id"] = parent_id
        payload = event.payload()
        if payload is not None:
            record["payload"] = payload
        self._sink(record)
