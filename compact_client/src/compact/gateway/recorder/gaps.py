"""Report requests that were forwarded but not recorded, at most once per second.

A gap whose session is not known has a session of its own for each credential, so that no gap is only a figure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from compact.events import GapEvent
from compact.gateway.recorder.conversation import time_text
from compact.recording import SessionEvents, SessionRecorder

Reason = Literal["recorder_busy", "body_too_large", "unreadable"]
_INTERVAL_S = 1.0
_SESSION = "gateway-gaps"


@dataclass(slots=True)
class _Gap:
    at: float = 0.0
    request_count: int = 0
    bytes_dropped: int = 0


class Gaps:
    """The gaps that are not reported yet."""

    def __init__(self, put: Callable[[dict[str, Any]], None]) -> None:
        self._put = put
        self._waiting: dict[tuple[str, Reason], _Gap] = {}
        self._recorders: dict[str, SessionRecorder] = {}
        """The recorders of the sessions that have only gaps."""
        self._reported_at = float("-inf")

    def add(self, session_id: str, reason: Reason, *, at: float, size: int = 0) -> None:
        """Add a request of a session."""
        gap = self._waiting.setdefault((session_id, reason), _Gap())
        gap.at, gap.request_count, gap.bytes_dropped = at, gap.request_count + 1, gap.bytes_dropped + size

    def add_unknown(self, credential: str, reason: Reason, *, at: float, size: int = 0) -> None:
        """Add a request whose session is not known. Without its head, its credential is not known either."""
        digest = hashlib.sha256(credential.encode()).hexdigest()[:12]
        session_id = f"{_SESSION}-{digest}" if credential else _SESSION
        self._recorders.setdefault(session_id, SessionRecorder("gateway", "chat"))
        self.add(session_id, reason, at=at, size=size)

    def report(self, now: float) -> None:
        """Emit what waits, unless the last time was less than a second ago."""
        if self._waiting and now - self._reported_at >= _INTERVAL_S:
            self._reported_at = now
            self.report_all()

    def report_all(self) -> None:
        """Emit what waits."""
        waiting, self._waiting = self._waiting, {}
        for (session_id, reason), gap in waiting.items():
            event = GapEvent(
                source="gateway", request_count=gap.request_count, bytes_dropped=gap.bytes_dropped, reason=reason
            )
            at, recorder = time_text(gap.at), self._recorders.get(session_id, SessionRecorder("gateway", "chat"))
            events = SessionEvents(recorder, session_id=session_id)
            if session_id in self._recorders:
                recorder.note_time(at)
                for item in events.session_events():
                    self._put(item)
            self._put(events.single_event(event, at=at))
