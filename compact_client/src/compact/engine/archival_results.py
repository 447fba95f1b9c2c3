"""Report what became of a queued transcript, when the archive has answered.

The answer arrives on the archive's own thread, often after the check that queued the transcript has ended. It is
still a child of that check.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

from compact import events
from compact.protocols import ArchiveResult

_MAX_WAITING = 1_000

Key = tuple[str, str]
"""The session id and the digest of a transcript."""


class ArchivalResults:
    """Connects the answers of an archive to the checks that wait for them."""

    def __init__(self, emit_event: Callable[[str, events.Event, str], None], storage_name: str) -> None:
        self._emit_event = emit_event
        self._storage_name = storage_name
        self._waiting: OrderedDict[Key, tuple[events.CheckSpan, events.ArchivalEvent]] = OrderedDict()
        self._early: OrderedDict[Key, ArchiveResult] = OrderedDict()
        """Answers that arrived before the check waited for them."""
        self._lock = threading.Lock()

    def wait(self, check: events.CheckSpan, event: events.ArchivalEvent) -> None:
        """Send the event again, with its final state, when the archive has answered."""
        key = (event.session_id, event.sha256 or "")
        with self._lock:
            result = self._early.pop(key, None)
            if result is None:
                self._waiting[key] = (check, event)
                if len(self._waiting) > _MAX_WAITING:
                    self._waiting.popitem(last=False)
        if result is not None:
            self._report(check, event, result)

    def accept(self, result: ArchiveResult) -> None:
        """Report an answer of the archive."""
        key = (result.session_id, result.sha256)
        with self._lock:
            waiting = self._waiting.pop(key, None)
            if waiting is None and not result.is_from_earlier_process:
                self._early[key] = result
                if len(self._early) > _MAX_WAITING:
                    self._early.popitem(last=False)
        if waiting is not None:
            self._report(*waiting, result)
        elif result.is_from_earlier_process:
            self._report_alone(result)

    def _report(self, check: events.CheckSpan, event: events.ArchivalEvent, result: ArchiveResult) -> None:
        final = replace(event, state=_state(result), step=result.step, error=result.error)
        check.emit(final, is_error=result.error is not None)

    def _report_alone(self, result: ArchiveResult) -> None:
        """Report a transcript that an earlier process queued. Its check is not known any more."""
        event = events.ArchivalEvent(
            session_id=result.session_id,
            state=_state(result),
            step=result.step,
            storage_adapter=self._storage_name,
            message_count=None,
            redactions={},
            sha256=result.sha256,
            error=result.error,
        )
        self._emit_event(result.session_id, event, "error" if result.error is not None else "ok")


def _state(result: ArchiveResult) -> events.ArchivalState:
    return "stored" if result.error is None else "failed"
