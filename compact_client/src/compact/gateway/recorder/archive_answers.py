"""Report what became of a transcript that was queued: its event is sent again with the state that the archive names."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from compact.events import ArchivalEvent, iso, utc_now
from compact.protocols import ArchiveResult

_MAX_WAITING = 1_000
_Key = tuple[str, str]
"""The session and the digest of a transcript."""


class ArchiveAnswers:
    """Passes events on, and sends those of queued transcripts again. The archive answers on a thread of its own."""

    def __init__(self, emit: Callable[[dict[str, Any]], None]) -> None:
        self._emit = emit
        self._waiting: OrderedDict[_Key, dict[str, Any]] = OrderedDict()
        self._early: OrderedDict[_Key, ArchiveResult] = OrderedDict()
        """Answers that arrived before the event."""
        self._lock = threading.Lock()

    def emit(self, event: dict[str, Any]) -> None:
        """Pass an event on."""
        self._emit(event)
        properties = event.get("properties") or {}
        if event.get("kind") != ArchivalEvent.name or properties.get("state") != "queued":
            return
        key = str(event["session_id"]), str(properties.get("sha256"))
        with self._lock:
            result = self._early.pop(key, None)
            if result is None:
                _remember(self._waiting, key, event)
        if result is not None:
            self._report(event, result)

    def accept(self, result: ArchiveResult) -> None:
        """Report an answer of the archive."""
        key = result.session_id, result.sha256
        with self._lock:
            event = self._waiting.pop(key, None)
            if event is None:
                _remember(self._early, key, result)
        if event is not None:
            self._report(event, result)

    def _report(self, event: dict[str, Any], result: ArchiveResult) -> None:
        state = "stored" if result.error is None else "failed"
        properties = {**event["properties"], "state": state, "step": result.step}
        if result.error is not None:
            properties["error"] = result.error
        status = "ok" if result.error is None else "error"
        self._emit({**event, "ended_at": iso(utc_now()), "status": status, "properties": properties})


def _remember(waiting: OrderedDict[_Key, Any], key: _Key, value: Any) -> None:
    waiting[key] = value
    if len(waiting) > _MAX_WAITING:
        waiting.popitem(last=False)
