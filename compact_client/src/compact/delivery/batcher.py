"""A bounded queue and the worker thread that drains it in batches.

`put` is all that an event costs the agent. It appends to the queue, wakes the worker once per batch, and never blocks
or raises. When the queue is full, the event is dropped and the caller counts it. After a fork, the child starts with
an empty queue and its own worker. In a process that may end without exit handlers, `put` hands the event to the sink at
once if that keeps it.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from typing import Any

from compact.delivery.process_exit import may_skip_exit_handlers, on_child_start

Event = dict[str, Any]


class Sink:
    """The consumer of a queue. The worker thread calls every method, and none of them may raise.

    A sink that finishes its work in `accept` needs no other method.
    """

    idle_s: float | None = None
    """Seconds until `step` is called again while there is nothing to do. None waits for the next event."""

    @property
    def is_durable(self) -> bool:
        """True if what `accept` takes survives the process, and any thread may call it."""
        return False

    def accept(self, events: list[Event]) -> None:
        """Take ownership of a batch of events."""
        raise NotImplementedError

    def step(self) -> float | None:
        """Do one unit of background work.

        Return the seconds until the next step is due, 0 to continue immediately, or None if there is nothing to do.
        """
        return None

    def stop(self) -> None:
        """Release connections before the worker exits."""

    def after_fork(self) -> None:
        """Discard the state of the parent process."""


class Batcher:
    """A bounded queue with a daemon thread.

    The worker flushes `interval_s` after the first event of a batch, or as soon as `max_batch` events are queued.
    """

    _queue: deque[Event]
    _waiters: deque[threading.Event]
    _thread: threading.Thread | None
    _is_idle: bool
    _is_closing: bool
    _is_direct: bool

    def __init__(self, sink: Sink, *, max_queue: int, max_batch: int, interval_s: float, name: str) -> None:
        self._sink = sink
        self._max_queue = max_queue
        self._max_batch = max_batch
        self._interval_s = interval_s
        self._name = name
        self._reset()
        _batchers.add(self)

    def put(self, event: Event) -> bool:
        """Queue the event. Return False if the queue is full and the event was dropped."""
        # No lock: appending to a deque is atomic, and two threads at the limit exceed it by one event.
        queue = self._queue
        length = len(queue)
        if length >= self._max_queue:
            return False
        if self._is_direct and self._store(event):
            return True
        queue.append(event)
        # Wake the worker once per batch: setting an Event costs more than the rest of this method.
        if self._is_idle:
            self._is_idle = False
            if self._thread is None:
                self.start()
            self._wake.set()
        elif length == self._max_batch:
            self._full.set()
        return True

    def _store(self, event: Event) -> bool:
        """Hand an event to the sink on this thread. Return False if the thread is doing that already."""
        thread = threading.get_ident()
        if thread in self._storing:
            # A signal handler that emits while its thread holds the sink's lock. The worker takes this event.
            return False
        self._storing.add(thread)
        try:
            self._sink.accept([event])
        finally:
            self._storing.discard(thread)
        self.wake()
        return True

    def wake(self) -> None:
        """Run the sink's next step soon, for sinks that receive work from outside the queue."""
        self.start()
        self._wake.set()

    def start(self) -> None:
        """Start the worker if it is not running."""
        with self._start_lock:
            if self._thread is None and not self._is_closing:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def flush(self, timeout_s: float) -> bool:
        """Wait until the queue is empty and the sink has nothing to do. Return False on timeout."""
        if self._thread is None and not self._queue:
            return True
        done = threading.Event()
        self._waiters.append(done)
        self.start()
        self._skip_wait()
        return done.wait(timeout_s)

    def close(self, timeout_s: float) -> list[Event]:
        """Stop the worker and return the events that are still queued."""
        self._is_closing = True
        self._max_queue = 0  # Later events are dropped and counted, instead of waiting for a worker that is gone.
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            self._skip_wait()
            thread.join(timeout_s)
        return self._drain(len(self._queue))

    @property
    def queued(self) -> int:
        """Number of events in the queue."""
        return len(self._queue)

    def _skip_wait(self) -> None:
        self._wake.set()
        self._full.set()

    def _run(self) -> None:
        delay: float | None = 0.0
        while True:
            if delay != 0.0:
                self._wait(delay)
            self._full.clear()
            self._wake.clear()
            # Mark idle before draining: a later event is either drained below or wakes the next round.
            self._is_idle = True
            # Release only these waiters below: later ones may wait for work that this round does not see.
            waiters = len(self._waiters)
            while events := self._drain(self._max_batch):
                self._sink.accept(events)
            delay = self._sink.step()
            if delay is None and not self._queue:
                for _ in range(waiters):
                    self._waiters.popleft().set()
            if self._is_closing and not self._queue and delay != 0.0:
                self._sink.stop()
                return

    def _wait(self, delay: float | None) -> None:
        """Wait for an event or the delay, and after an event for a batch of them, unless someone waits for it."""
        timeout_s = self._sink.idle_s if delay is None else delay
        if self._wake.wait(timeout_s) and not self._is_closing and not self._waiters:
            self._full.wait(self._interval_s)

    def _drain(self, limit: int) -> list[Event]:
        queue = self._queue
        events: list[Event] = []
        while queue and len(events) < limit:
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
        self._storing: set[int] = set()
        self._choose_way()

    def _choose_way(self) -> None:
        self._is_direct = self._sink.is_durable and may_skip_exit_handlers()


_batchers: weakref.WeakSet[Batcher] = weakref.WeakSet()


def _after_fork() -> None:
    # The parent's thread does not exist in the child, its locks may be held, and the parent sends its own queue.
    for batcher in list(_batchers):
        was_closing = batcher._is_closing
        batcher._reset()
        batcher._is_closing = was_closing
        batcher._sink.after_fork()


def _on_child_start() -> None:
    for batcher in list(_batchers):
        batcher._choose_way()


on_child_start(_on_child_start)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
