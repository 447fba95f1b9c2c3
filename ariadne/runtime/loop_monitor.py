"""Measure the lag of a web process's event loop, and prove to the supervisor that the loop is alive.

The loop writes one byte to a pipe every second. If the supervisor reads none for `LIVENESS_TIMEOUT_S`, it asks for the
stacks of all threads, which `faulthandler` writes to a file even while C code holds the interpreter lock, and replaces
the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import signal
import sys

from ingest import metrics

BEAT_INTERVAL_S = 1.0
_TICK_S = 0.25
DUMP_SIGNAL = signal.SIGQUIT


class LoopMonitor:
    """Ticks on the event loop. `beat_fd` and `stacks_fd` are of the supervisor, if there is one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, beat_fd: int | None, stacks_fd: int | None = None) -> None:
        self._loop = loop
        self._beat_fd = beat_fd
        self._beat_due = 0.0
        faulthandler.register(DUMP_SIGNAL, sys.stderr if stacks_fd is None else stacks_fd, all_threads=True)
        if beat_fd is not None:
            os.set_blocking(beat_fd, False)
        self._schedule()

    def _schedule(self) -> None:
        due = self._loop.time() + _TICK_S
        self._loop.call_at(due, self._tick, due)

    def _tick(self, due: float) -> None:
        now = self._loop.time()
        metrics.loop_lag_seconds.observe(max(0.0, now - due))
        if self._beat_fd is not None and now >= self._beat_due:
            self._beat_due = now + BEAT_INTERVAL_S
            # The pipe is full while the supervisor waits for another process, and closed if it is gone.
            with contextlib.suppress(BlockingIOError, BrokenPipeError):
                os.write(self._beat_fd, b".")
        self._schedule()
