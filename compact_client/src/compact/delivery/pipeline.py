"""The background delivery of items to one endpoint: queue → encoder → spool → sender.

Each stage only knows the next one. Items enter through `queue.put` or, already encoded, through `store`.
"""

from __future__ import annotations

import os
import time
from typing import Any

from compact.delivery.batcher import Batcher, Sink
from compact.delivery.counts import Counts
from compact.delivery.drops import Drops
from compact.delivery.endpoint import Endpoint, spool_directory
from compact.delivery.process_exit import add_exit_handler, remove_exit_handler
from compact.delivery.segments import Record
from compact.delivery.sender import Encoder, Sender
from compact.delivery.spool import ADOPTION_INTERVAL_S, Spool
from compact.delivery.stderr import log_problem

_GIVE_UP_POLL_S = 0.1


class Pipeline:
    """Delivers items to an endpoint from a worker thread, and on exit leaves unsent ones to the next process."""

    def __init__(
        self,
        endpoint: Endpoint,
        encoder: Encoder,
        counts: Counts,
        *,
        thread_name: str,
        spool_dir: str | os.PathLike[str] | None,
        spool_bytes: int,
        timeout_s: float,
        max_backoff_s: float,
        exit_timeout_s: float,
        max_queue: int = 0,
        max_batch: int = 1,
        interval_s: float = 0.0,
    ) -> None:
        self.counts = counts
        self._endpoint = endpoint
        self._encoder = encoder
        self._noun = encoder.noun
        self._exit_timeout_s = exit_timeout_s
        self._is_closed = False
        self._has_said_closed = False
        directory = spool_directory(spool_dir, endpoint.url)
        self._drops = Drops(directory, counts, noun=encoder.noun)
        self._spool = Spool(directory, max_bytes=spool_bytes, counts=counts, drops=self._drops)
        self._sender = Sender(
            endpoint, encoder, self._spool, counts, self._drops, timeout_s=timeout_s, max_backoff_s=max_backoff_s
        )
        self._worker = _Worker(encoder, self._spool, self._sender, counts, self._drops)
        self.queue = Batcher(
            self._worker, max_queue=max_queue, max_batch=max_batch, interval_s=interval_s, name=thread_name
        )
        # Start now, not with the first item, so that the records of a dead process are sent immediately.
        self.queue.start()
        add_exit_handler(self.close)

    def store(self, record: Record) -> bool:
        """Write an encoded record to the spool and to the disk on the caller's thread, and have it sent soon.

        Return False if the spool is full. No other record is dropped to make room.
        """
        if not self._spool.has_room(record):
            return False
        self._spool.append(record)
        self._spool.sync()
        self.queue.wake()
        return True

    @property
    def is_durable(self) -> bool:
        """True if unsent records survive the process."""
        return self._spool.is_durable

    @property
    def spooled(self) -> int:
        """Number of items in the spool."""
        return self._spool.pending

    @property
    def lasting_failure(self) -> str | None:
        """The reason why nothing can be delivered now and waiting does not help, or None."""
        failure = self._sender.failure
        return failure.problem if failure is not None and failure.is_lasting else None

    def flush(self, timeout_s: float, *, gives_up: bool = False) -> bool:
        """Wait until the server has stored everything, also of processes that have died. Return False on timeout.

        With `gives_up` it also returns False as soon as waiting does not help: the server rejects the key, or has been
        unreachable for a few seconds.
        """
        self._spool.adopt_soon()
        if not gives_up:
            return self.queue.flush(timeout_s)
        deadline = time.monotonic() + timeout_s
        while not self.queue.flush(min(_GIVE_UP_POLL_S, max(0.0, deadline - time.monotonic()))):
            if self.lasting_failure or time.monotonic() >= deadline:
                return False
        return True

    def close(self, timeout_s: float | None = None) -> None:
        """Send as much as possible within the timeout. The rest stays on disk for the next process."""
        if self._is_closed:
            return
        self._is_closed = True
        # Otherwise the list of exit handlers would keep each closed pipeline in memory.
        remove_exit_handler(self.close)
        self._spool.adopt_soon()
        unsent = self.queue.close(self._exit_timeout_s if timeout_s is None else timeout_s)
        if unsent:
            self._worker.accept(unsent)
        on_disk, in_memory = self._spool.close()
        self._drops.log()
        if in_memory:
            self._say_unsent(in_memory, "and are lost." if self._spool.has_directory else "and are lost (no spool).")
            self.counts.drop(in_memory)
        if on_disk and not self._sender.is_failing:
            self._say_unsent(on_disk, "in time and stay on disk.")
        self._drops.close()

    def drop(self, session_id: str | None) -> None:
        """Count an item that the queue did not take. Its session is the one that a report of it is shown in."""
        self.counts.drop(1)
        self._encoder.last_session_id = session_id or self._encoder.last_session_id
        if self._is_closed and not self._has_said_closed:
            self._has_said_closed = True
            log_problem("Ariadne", f"An {self._noun} came after the exporter was closed. It is dropped, as later ones.")

    def _say_unsent(self, count: int, result: str) -> None:
        subject = f"{count} {self._noun}{'s' if count > 1 else ''}"
        log_problem("Ariadne", f"{subject} could not be sent to {self._endpoint.display_url} {result}")


class _Worker(Sink):
    """The worker thread's side of a pipeline."""

    idle_s = ADOPTION_INTERVAL_S

    def __init__(self, encoder: Encoder, spool: Spool, sender: Sender, counts: Counts, drops: Drops) -> None:
        self._encoder = encoder
        self._spool = spool
        self._sender = sender
        self._counts = counts
        self._drops = drops

    @property
    def is_durable(self) -> bool:
        return self._spool.has_directory

    def accept(self, items: list[dict[str, Any]]) -> None:
        for record in self._encoder.encode(items):
            self._spool.append(record)

    def step(self) -> float | None:
        self._drops.session_id = self._encoder.last_session_id
        self._drops.save()
        delay = self._sender.step()
        if delay is None:
            self._drops.log()
        return delay

    def stop(self) -> None:
        self._sender.stop()

    def after_fork(self) -> None:
        self._counts.reset()
        self._drops.reset()
        self._spool.reset()
        self._sender.reset()
