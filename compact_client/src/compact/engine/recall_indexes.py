"""The bound on the search indexes that a manager keeps in memory."""

from __future__ import annotations

import threading
import weakref
from collections import deque

from compact.engine.session import Session

_MAX_INDEXES = 32


class RecallIndexes:
    """Bounds the number of indexes that a manager keeps in memory. An evicted one is built again when needed."""

    def __init__(self, max_indexes: int = _MAX_INDEXES) -> None:
        self._max_indexes = max_indexes
        self._sessions: deque[weakref.ref[Session]] = deque()
        self._lock = threading.Lock()

    def touch(self, session: Session) -> None:
        """Mark a session's index as used, and drop the one that was not used for the longest time."""
        with self._lock:
            kept = deque(ref for ref in self._sessions if ref() not in (None, session))
            while len(kept) >= self._max_indexes:
                oldest = kept.popleft()()
                if oldest is not None:
                    oldest.recall.index = None
            kept.append(weakref.ref(session))
            self._sessions = kept
