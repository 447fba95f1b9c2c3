"""The branches of a session: histories under one session id that do not continue each other.

A host may edit its history, run several agents under one id, or reuse an id for another conversation. Each of these
histories has its own log, plan and summary, and never sees those of another one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from compact.engine.effects import Steps
from compact.engine.session.request import SentRequests
from compact.engine.session.session import Session, SharedState
from compact.redaction.outbound import OutboundRedactor

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Evictions:
    """Numbers of evicted sessions, branches and requests."""

    sessions: int = 0
    branches: int = 0
    requests: int = 0

    def __add__(self, other: Evictions) -> Evictions:
        return Evictions(self.sessions + other.sessions, self.branches + other.branches, self.requests + other.requests)


class Branches:
    """All branches of one session id, the last used one at the end. The caller of `select` holds the lock."""

    def __init__(
        self,
        session_id: str,
        trace_id: str,
        *,
        redactor: OutboundRedactor,
        max_branches: int,
        max_requests: int,
    ) -> None:
        self.session_id = session_id
        self.trace_id = trace_id
        self.lock = threading.Lock()
        self._caller_thread_id: int | None = None
        """The thread that is running a call for this session, or whose event loop is."""
        self._worker_thread_id: int | None = None
        """The worker thread that runs the steps of an async call."""
        self._steps_lock = threading.RLock()
        """Held while steps run in a worker thread, so that the event loop's thread can read between them."""
        self.shared = SharedState(SentRequests(max_requests), redactor)
        self.evicted_count = 0
        self._max_branches = max_branches
        self._created_count = 0
        self._branches: list[Session] = [self._create()]

    def __len__(self) -> int:
        return len(self._branches)

    @property
    def current(self) -> Session:
        """The branch that was used last."""
        return self._branches[-1]

    def run_on(self, items: Sequence[Any] | None, steps: Callable[[Session], Steps[R]]) -> Steps[R]:
        """Run steps on the branch that these messages continue. Without messages, it is the current branch."""
        return (yield from steps(self.current if items is None else self.select(items)))

    def select(self, items: Sequence[Any]) -> Session:
        """Return the branch that these messages continue, or a new one. It becomes the current branch."""
        session = self.find(items)
        if session is None:
            session = self._create()
        else:
            self._branches.remove(session)
        self._branches.append(session)
        if len(self._branches) > self._max_branches:
            self.shared.plan_keys.pop(self._branches.pop(0).number, None)
            self.evicted_count += 1
        return session

    def find(self, items: Sequence[Any]) -> Session | None:
        """Return the branch that these messages continue, or None. The longest known part wins."""
        # With equal sizes, the branch that was used last wins.
        sizes = [(match.size, index) for index, session in enumerate(self._branches) if (match := session.match(items))]
        return self._branches[max(sizes)[1]] if sizes else None

    def get(self, number: int) -> Session | None:
        """Return a branch by its number, or None if it was evicted."""
        return next((session for session in self._branches if session.number == number), None)

    @property
    def is_active_here(self) -> bool:
        """True if this thread is running a call for this session, or its event loop is."""
        return threading.get_ident() in (self._caller_thread_id, self._worker_thread_id)

    @contextmanager
    def run_call(self) -> Iterator[None]:
        """Hold the lock for a call on this thread."""
        with self.lock:
            self._caller_thread_id = threading.get_ident()
            try:
                yield
            finally:
                self._caller_thread_id = None

    def try_acquire(self) -> bool:
        """Take the lock for a call on this thread's event loop. Return False if another call has it.

        The thread is marked for as long as the lock is held, because another task of the same loop may read the session
        at any time, and would block the loop if it waited for the lock.
        """
        if not self.lock.acquire(blocking=False):
            return False
        self._caller_thread_id = threading.get_ident()
        return True

    def release(self) -> None:
        """Release the lock after `try_acquire`."""
        self._caller_thread_id = None
        self.lock.release()

    @contextmanager
    def run_worker(self) -> Iterator[None]:
        """Mark this thread as the worker of an async call."""
        self._worker_thread_id = threading.get_ident()
        try:
            yield
        finally:
            self._worker_thread_id = None

    @contextmanager
    def run_steps(self) -> Iterator[None]:
        """Keep the event loop's thread from reading the session while a worker changes it."""
        with self._steps_lock:
            yield

    @contextmanager
    def read_access(self) -> Iterator[None]:
        """Hold the lock. A thread that is running a call would wait for itself, so it only waits for the worker."""
        with self._steps_lock if self.is_active_here else self.run_call():
            yield

    def _create(self) -> Session:
        session = Session(self.session_id, self.trace_id, number=self._created_count, shared=self.shared)
        self._created_count += 1
        return session
