"""Read messages in the background, so that a compaction finds their lines and entities in the caches.

Reading is pure, and its results are cached by text. A compaction that does not wait for the reader, or that finds a
cache evicted, reads the rest itself and writes the same summary.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from compact.messages.redacted_types import RedactedMessage
from compact.reading.blocks import read_blocks
from compact.summarizers.extraction.span_index import SpanIndex

_MAX_PENDING: Final = 256  # lists of messages. The caches hold the texts of a few long sessions, not of more.
_WORK_S: Final = 0.002  # between two pauses, in which the agent's thread can run
_PAUSE_S: Final = 0.001
_IDLE_S: Final = 30.0


class _Reading(NamedTuple):
    session: object
    messages: Sequence[RedactedMessage]


class ReadAhead:
    """One thread that reads the messages it is given. The thread starts with the first ones and ends when idle."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._pending: deque[_Reading] = deque(maxlen=_MAX_PENDING)
        self._current: _Reading | None = None
        self._changed = threading.Condition()
        self._is_running = False

    def add(self, session: object, messages: Sequence[RedactedMessage]) -> None:
        """Read these messages soon. A result is only read together with its call, so pass both."""
        with self._changed:
            self._pending.append(_Reading(session, messages))
            if self._is_running:
                self._changed.notify_all()
                return
            try:
                threading.Thread(target=self._run, name="compact-read-ahead", daemon=True).start()
            except RuntimeError:
                # The process cannot start more threads. The compaction reads the messages itself.
                self._pending.clear()
            else:
                self._is_running = True

    def cancel(self, session: object) -> None:
        """Stop reading for a session, because its compaction reads everything now."""
        with self._changed:
            self._pending = deque((item for item in self._pending if item.session is not session), _MAX_PENDING)
            if self._current is not None and self._current.session is session:
                self._current = None

    def wait(self, timeout_s: float) -> bool:
        """Wait until everything is read. Return False if it takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending and self._current is None, timeout_s)

    def _run(self) -> None:
        while (reading := self._next()) is not None:
            # The compaction reads the same messages, fails in the same way, and reports it.
            with contextlib.suppress(Exception):
                self._read(reading)

    def _next(self) -> _Reading | None:
        with self._changed:
            self._current = None
            self._changed.notify_all()
            self._is_running = self._changed.wait_for(lambda: bool(self._pending), _IDLE_S)
            self._current = self._pending.popleft() if self._is_running else None
            return self._current

    def _read(self, reading: _Reading) -> None:
        index, pause_at = SpanIndex(), time.monotonic() + _WORK_S
        for block in read_blocks(reading.messages):
            index.add((block,))
            if time.monotonic() >= pause_at:
                time.sleep(_PAUSE_S)
                pause_at = time.monotonic() + _WORK_S
            if self._current is not reading:
                return


READ_AHEAD: Final = ReadAhead()
"""One reader per process, because the caches that it fills belong to the process."""

if hasattr(os, "register_at_fork"):
    # A child process has no reader thread, and may inherit a locked lock.
    os.register_at_fork(after_in_child=READ_AHEAD._reset)
