"""The queue between the agent's thread and the network, and the one thread that empties it.

`put` is the whole cost of an event to the agent: it appends, and wakes the worker once per batch. It never waits and
never raises; when the queue is full the event is counted and let go. After a fork the child starts with an empty queue
and a worker of its own.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from typing import Any

Event = dict[str, Any]


class Sink:
    """What a worker feeds, on its own thread; none of it may raise. Who delivers while accepting needs nothing else."""

    def accept(self, events: list[Event]) -> None:
        """Take the events over; from here on they must not be lost."""
        raise NotImplementedError

    def work(self) -> float | None:
        """Do one step of sending. The seconds until the next step is due, 0 for at once, None for nothing to do."""
        return None

    def stop(self) -> None:
        """Let go of connections; the worker ends."""

    def after_fork(self) -> None:
        """Forget what belongs to the parent process."""


class Batcher:
    """A bounded queue with a daemon thread; `interval_s` and `max_batch` say when it flushes, whichever comes first."""

    _queue: deque[Event]
    _waiters: deque[threading.Event]
    _thread: threading.Thread | None
    _is_idle: bool
    _is_closing: bool

    def __init__(self, sink: Sink, *, max_queue: int, max_batch: int, interval_s: float, name: str) -> None:
        self._sink = sink
        self._max_queue = max_queue
        self._max_batch = max_batch
        self._interval_s = interval_s
        self._name = name
        self._reset()
        _batchers.add(self)

    def put(self, event: Event) -> bool:
        """Queue the event; False if the queue is full and it was let go."""
        queue = self._queue
        length = len(queue)
        if length >= self._max_queue:
            return False
        queue.append(event)
        # One wake-up per batch: setting an Event costs more than all the rest of this method.
        if self._is_idle:
            self._is_idle = False
            if self._thread is None:
                self.start()
            self._wake.set()
        elif length == self._max_batch:
            self._full.set()
        return True

    def start(self) -> None:
        """Start the worker; `put` does it too, after a fork for instance."""
        with self._start_lock:
            if self._thread is None and not self._is_closing:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was queued has been sent; False if that took longer."""
        if self._thread is None and not self._queue:
            return True
        done = threading.Event()
        self._waiters.append(done)
        self.start()
        self._hurry()
        return done.wait(timeout_s)

    def close(self, timeout_s: float) -> list[Event]:
        """Stop the worker within the time given, and return what is still queued."""
        self._is_closing = True
        self._max_queue = 0
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            self._hurry()
            thread.join(timeout_s)
        return self._drain(len(self._queue))

    @property
    def queued(self) -> int:
        return len(self._queue)

    def _hurry(self) -> None:
        self._wake.set()
        self._full.set()

    def _run(self) -> None:
        delay: float | None = 0.0
        while True:
            if delay != 0.0 and self._wake.wait(delay) and not self._is_closing and not self._waiters:
                self._full.wait(self._interval_s)
            self._full.clear()
            self._wake.clear()
            # In this order: an event queued from here on either is drained below or wakes the next round.
            self._is_idle = True
            while events := self._drain(self._max_batch):
                self._sink.accept(events)
            delay = self._sink.work()
            if delay is None and not self._queue:
                while self._waiters:
                    self._waiters.popleft().set()
            if self._is_closing and not self._queue and delay != 0.0:
                self._sink.stop()
                return

    def _drain(self, most: int) -> list[Event]:
        queue = self._queue
        events: list[Event] = []
        while queue and len(events) < most:
            events.append(queue.popleft())
        return events

    def _reset(self) -> None:
        self._queue = deque()
        self._waiters = deque()
        self._wake = threading.Event()
        self._full = threading.Event()
        self._start_lock = threading.Lock()
        self._thread = None
        self._is_idle = True
        self._is_closing = False


_batchers: weakref.WeakSet[Batcher] = weakref.WeakSet()


def _after_fork() -> None:
    # The parent's thread does not exist here, its locks may be held, and its queue is the parent's to send.
    for batcher in list(_batchers):
        was_closing = batcher._is_closing
        batcher._reset()
        batcher._is_closing = was_closing
        batcher._sink.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
