"""Restart the embedded Postgres when it has stopped, less and less often while it cannot run.

A killed server is back at once. On a full disk it stops again with its first write, or does not start at all. The
supervisor then tries every few seconds, and says the reason once.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ariadne.runtime.postgres import Postgres, PostgresError
from ariadne.runtime.terminal import print_line

MIN_DELAY_S, MAX_DELAY_S = 0.2, 10.0
# A server that has run this long has recovered from what stopped it.
STABLE_S = 10.0


class PostgresWatch:
    """Restarts a server. The supervisor calls `check` a few times per second."""

    def __init__(self, postgres: Postgres, *, log_line: Callable[[str], None] = print_line) -> None:
        self._postgres = postgres
        self._log_line = log_line
        self._reason = ""
        self._is_disk_full = False
        self._attempts = 0
        self._stopped_at = self._next_at = self._started_at = 0.0

    def check(self) -> None:
        process, now = self._postgres.process, time.monotonic()
        if process is None:
            return
        if process.poll() is None:
            self._end_episode(now)
        elif now >= self._next_at or (self._is_disk_full and not self._postgres.is_disk_full()):
            self._restart(now)

    def _restart(self, now: float) -> None:
        if not self._attempts:
            self._stopped_at = now
            self._log_line("Postgres has stopped. Restarting …")
        self._attempts += 1
        self._next_at = now + min(MAX_DELAY_S, MIN_DELAY_S * 2**self._attempts)
        self._is_disk_full = self._postgres.is_disk_full()
        # The first attempts may fail only because children of the old server are still exiting.
        if self._attempts > (1 if self._is_disk_full else 3):
            self._report(self._postgres.failure_reason())
        try:
            self._postgres.start()
        except PostgresError:
            return  # the next attempt follows
        self._started_at = time.monotonic()

    def _report(self, reason: str) -> None:
        """Print why it does not run, if that was not said yet. Figures of the same reason change all the time."""
        known, self._reason = self._reason, reason.split(":", maxsplit=1)[0]
        if self._reason != known:
            self._log_line(
                f"Postgres does not run: {reason}. Trying again, at most every {MAX_DELAY_S:.0f} seconds. "
                "Events are rejected with 503 until then, and senders keep them."
            )

    def _end_episode(self, now: float) -> None:
        if self._attempts and now - self._started_at >= STABLE_S:
            if self._reason:
                self._log_line(f"Postgres is running again, {self._started_at - self._stopped_at:.0f} seconds later.")
            self._attempts, self._next_at, self._reason, self._is_disk_full = 0, 0.0, "", False
