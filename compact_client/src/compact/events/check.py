"""Events: what was decided, as it is decided.

An event is a plain dict with the names of DESIGN; nothing here raises into the agent. `parent_span` lets a host's
tracing be the parent of ours.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

parent_span: ContextVar[tuple[str, str | None] | None] = ContextVar("compact_parent_span", default=None)
"""(trace_id, span_id) of the host's current span, if it has one."""

CHECK = "compact.check"
TOKEN_ESTIMATE = "compact.token_estimate"  # noqa: S105 - an event's name
TRIGGER_DECISION = "compact.trigger_decision"
POLICY_APPLIED = "compact.policy_applied"
ARCHIVAL = "compact.archival"
SUMMARY_CREATED = "compact.summary_created"
PRUNED_MESSAGES = "compact.pruned_messages"
RETENTION = "compact.retention"
ERROR = "compact.error"
WARNING = "compact.warning"
OVERFLOW_RECOVERED = "compact.overflow_recovered"
CHECK_STARTED = "compact.check_started"
PROPOSAL_GENERATED = "compact.proposal_generated"
EXTERNALIZED = "compact.externalized"
SUMMARIZED = "compact.summarized"
CLEARED = "compact.cleared"
DROPPED = "compact.dropped"
REHYDRATED = "compact.rehydrated"
REHYDRATION_BLOCKED = "compact.rehydration_blocked"
COMPLETED = "compact.completed"
BREAKER_OPEN = "compact.breaker_open"
QUALITY = "compact.quality"

Clock = Callable[[], datetime]
Sink = Callable[[dict[str, Any]], None]


def utc_now() -> datetime:
    return datetime.now(UTC)


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC with microseconds and a Z."""
    text = moment.astimezone(UTC).isoformat(timespec="microseconds")
    return text.replace("+00:00", "Z")


def new_trace_id() -> str:
    return secrets.token_hex(16)


def new_span_id() -> str:
    return secrets.token_hex(8)


class Check:
    """The events of one preflight: children of one `compact.check` span.

    The span itself is sent when it ends; one that compacts is also sent open, so that a viewer shows it running.
    """

    def __init__(self, session_id: str, trace_id: str, *, sink: Sink | None, clock: Clock) -> None:
        self._session_id = session_id
        parent = parent_span.get()
        self.trace_id, self._parent_id = parent if parent else (trace_id, None)
        self.span_id = new_span_id()
        self._sink = sink
        self._clock = clock
        self._started = iso(clock())
        self.properties: dict[str, Any] = {}

    @property
    def is_watched(self) -> bool:
        """Whether anybody listens; costly payloads are not built for nobody."""
        return self._sink is not None

    def emit(
        self,
        event: str,
        properties: Mapping[str, Any],
        *,
        payload: Mapping[str, Any] | None = None,
        is_error: bool = False,
        started: datetime | None = None,
    ) -> None:
        """Send a child event; `started` makes it a span with a duration."""
        if self._sink is None:
            return
        now = iso(self._clock())
        self._send(
            event,
            dict(properties),
            span_id=new_span_id(),
            parent_id=self.span_id,
            started_at=iso(started) if started else now,
            ended_at=now,
            status="error" if is_error else "ok",
            payload=payload,
        )

    def open(self) -> None:
        """Send the span itself, running."""
        if self._sink is not None:
            self._send_self(None, "ok")

    def close(self, *, is_error: bool = False) -> None:
        """Send the span itself, ended."""
        if self._sink is not None:
            self._send_self(iso(self._clock()), "error" if is_error else "ok")

    def _send_self(self, ended_at: str | None, status: str) -> None:
        self._send(
            CHECK,
            dict(self.properties),
            span_id=self.span_id,
            parent_id=self._parent_id,
            started_at=self._started,
            ended_at=ended_at,
            status=status,
        )

    def _send(
        self,
        event: str,
        properties: dict[str, Any],
        *,
        span_id: str,
        parent_id: str | None,
        started_at: str,
        ended_at: str | None,
        status: str,
        payload: Mapping[str, Any] | None = None,
    ) -> None:
        assert self._sink is not None
        record: dict[str, Any] = {
            "ts": ended_at or started_at,
            "session_id": self._session_id,
            "event": event,
            "trace_id": self.trace_id,
            "span_id": span_id,
            "started_at": started_at,
            "ended_at": ended_at,
            "status": status,
            "properties": properties,
        }
        if parent_id is not None:
            record["parent_id"] = parent_id
        if payload is not None:
            record["payload"] = dict(payload)
        self._sink(record)
