"""The time in which a story is played: now, or some days ago."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from compact.protocols import Exporter

_TIMES = ("ts", "started_at", "ended_at", "timestamp")


class LiveClock:
    """The present. Fast turns take a fraction of their real time."""

    _FAST_FORWARD = 150

    def __init__(self) -> None:
        self.is_fast = False

    def now(self) -> datetime:
        return datetime.now(UTC)

    def spend(self, seconds: float) -> None:
        """Wait as long as a real model or tool would take."""
        time.sleep(seconds / self._FAST_FORWARD if self.is_fast else seconds)


class PastClock:
    """A time in the past. Waiting moves the clock and takes no real time."""

    def __init__(self, ago: timedelta) -> None:
        self.is_fast = False
        self._offset = -ago

    def now(self) -> datetime:
        return datetime.now(UTC) + self._offset

    def spend(self, seconds: float) -> None:
        self._offset += timedelta(seconds=seconds)

    def shift(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return an event of the library, which uses the real time, as if it had happened now on this clock."""
        times = {name: self._shift_time(event[name]) for name in _TIMES if isinstance(event.get(name), str)}
        return {**event, **times}

    def _shift_time(self, moment: str) -> str:
        return (datetime.fromisoformat(moment) + self._offset).isoformat()


Clock = LiveClock | PastClock


class PastExporter:
    """Exports the events of the library at the time of a clock."""

    def __init__(self, exporter: Exporter, clock: PastClock) -> None:
        self._exporter = exporter
        self._clock = clock

    def emit(self, event: dict[str, Any]) -> None:
        self._exporter.emit(self._clock.shift(event))
