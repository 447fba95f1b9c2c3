"""The background delivery of items to one endpoint: queue → encoder → spool → sender.

Each stage only knows the next one. Items enter through `queue.put` or, already encoded, through `store`.
"""

from __future__ import annotations

import atexit
import os
from typing import Any

from compact.delivery.batcher import Batcher, Sink
from compact.delivery.counts import Counts
from compact.delivery.endpoint import Endpoint, spool_directory
from compact.delivery.sender import Encoder, Sender
from compact.delivery.spool import Record, Spool
from compact.delivery.stderr import log_problem


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
        self._noun = encoder.noun
        self._exit_timeout_s = exit_timeout_s
        self._is_closed = False
        self._spool = Spool(spool_directory(spool_dir, endpoint.url), max_bytes=spool_bytes, counts=counts)
        self._sender = Sender(endpoint, encoder, self._spool, counts, timeout_s=timeout_s, max_backoff_s=max_backoff_s)
        self._worker = _Worker(encoder, self._spool, self._sender, counts)
        self.queue = Batcher(
            self._worker, max_queue=max_queue, max_batch=max_batch, interval_s=interval_s, name=thread_name
        )
        # Start now, not with the first item, so that the records of a dead process are sent immediately.
        self.queue.start()
        atexit.register(self.close)

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

    def flush(self, timeout_s: float) -> bool:
        """Wait until the server has stored everything. Return False on timeout."""
        return self.queue.flush(timeout_s)

    def close(self, timeout_s: float | None = None) -> None:
        """Send as much as possible within the timeout. The rest stays on disk for the next process."""
        if self._is_closed:
            return
        self._is_closed = True
        # Otherwise the list of exit handlers would keep each closed pipeline in memory.
        atexit.unregister(self.close)
        unsent = self.queue.close(self._exit_timeout_s if timeout_s is None else timeout_s)
        if unsent or self.counts.unreported_drops:
            self._worker.accept(unsent)
        pending = self._spool.close()
        if not pending:
            return
        subject = f"{pending} {self._noun}{'s' if pending > 1 else ''}"
        if not self._spool.is_durable:
            log_problem(
                "Ariadne", f"{subject} could not be sent to {self._endpoint.display_url} and are lost (no spool)."
            )
        elif not self._sender.is_failing:
            log_problem(
                "Ariadne", f"{subject} could not be sent to {self._endpoint.display_url} in time and stay on disk."
            )


class _Worker(Sink):
    """The worker thread's side of a pipeline."""

    def __init__(self, encoder: Encoder, spool: Spool, sender: Sender, counts: Counts) -> None:
        self._encoder = encoder
        self._spool = spool
        self._sender = sender
        self._counts = counts

    def accept(self, items: list[dict[str, Any]]) -> None:
        for record in self._encoder.encode(items):
            self._spool.append(record)

    def step(self) -> float | None:
        delay = self._sender.step()
        # Report drops even if no further item arrives.
        if delay is None and self._counts.unreported_drops:
            self.accept([])
            return 0.0
        return delay

    def stop(self) -> None:
        self._sender.stop()

    def after_fork(self) -> None:
        self._counts.reset()
        self._spool.reset()
        self._sender.reset()
