"""Counters shared by the stages of a delivery."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counts:
    """Items sent, rejected, dropped and damaged, and failed attempts, since this process started."""

    sent: int = 0
    rejected: int = 0
    failures: int = 0
    dropped: int = 0
    """Items that did not fit into the queue or the spool."""
    damaged: int = 0
    """Items in spool files that could not be read."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def drop(self, count: int) -> None:
        """Count dropped items, on any thread."""
        with self._lock:
            self.dropped += count

    def reset(self) -> None:
        """Set every counter to 0, as a forked child must."""
        self._lock = threading.Lock()
        self.sent = self.rejected = self.failures = self.dropped = self.damaged = 0
