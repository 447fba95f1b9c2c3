"""Send events to an Ariadne server from a background thread.

`emit` appends to a bounded queue and returns. A worker thread writes batches to a spool on disk, posts them, and
removes them when the server has committed them. If the server is slow or unreachable, events stay on disk and are sent
later, by the next process if necessary. Nothing here raises into the agent: problems are counted and logged to stderr
as `[Ariadne]` lines.
"""

from __future__ import annotations

import os
from typing import Any

from compact.delivery.batcher import Batcher
from compact.delivery.counts import Counts
from compact.delivery.endpoint import LOCAL_URL, Endpoint, configured_url
from compact.delivery.pipeline import Pipeline
from compact.delivery.stderr import log_problem
from compact.exceptions import ConfigError
from compact.exporters.encoder import EventEncoder

MAX_TIMEOUT_S = 2.0


class AriadneExporter:
    """Sends events to an Ariadne server.

    `AriadneExporter(url="http://127.0.0.1:8000", api_key=…)`. The URL may end in /ingest. Both arguments default to
    ARIADNE_URL and ARIADNE_API_KEY. Unsent events are kept in `spool_dir`, up to `spool_bytes`. The default is
    COMPACT_SPOOL_DIR or, if unset, a directory under the user's state directory. `spool_dir=None` keeps events in
    memory only. Without a URL, the exporter says so once on stderr, sends nothing and counts the events as dropped.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = MAX_TIMEOUT_S,
        flush_interval_s: float = 0.05,
        max_queue: int = 65_536,
        max_batch: int = 512,
        max_body_bytes: int = 1024 * 1024,
        spool_dir: str | os.PathLike[str] | None = "",
        spool_bytes: int = 64 * 1024 * 1024,
        max_backoff_s: float = 30.0,
        exit_timeout_s: float = 2.0,
    ) -> None:
        if not 0 < timeout_s <= MAX_TIMEOUT_S:
            raise ConfigError("exporter.timeout_s", f"must be more than 0 and at most {MAX_TIMEOUT_S}")
        self._counts = Counts()
        self._pipeline: Pipeline | None = None
        self._queue: Batcher | _NoQueue = _NoQueue()
        self.url = ""
        if not (url or configured_url()):
            log_problem(
                "Ariadne", f"ARIADNE_URL is not set, so no events are sent. Set it, for example to {LOCAL_URL}."
            )
            return
        endpoint = Endpoint.resolve(url, api_key, "/ingest")
        self.url = endpoint.url
        self._pipeline = Pipeline(
            endpoint,
            EventEncoder(max_bytes=max_body_bytes, max_events=max_batch),
            self._counts,
            thread_name="compact-ariadne",
            spool_dir=spool_dir,
            spool_bytes=spool_bytes,
            timeout_s=timeout_s,
            max_backoff_s=max_backoff_s,
            exit_timeout_s=exit_timeout_s,
            max_queue=max_queue,
            max_batch=max_batch,
            interval_s=flush_interval_s,
        )
        # A reference of its own saves an attribute lookup per event.
        self._queue = self._pipeline.queue

    def emit(self, event: dict[str, Any]) -> None:
        """Queue the event. The caller must not change it afterwards."""
        if not self._queue.put(event):
            self._drop(event)

    def _drop(self, event: dict[str, Any]) -> None:
        if self._pipeline is None:
            self._counts.drop(1)
        else:
            self._pipeline.drop(event.get("session_id"))

    def flush(self, timeout_s: float = 2.0, *, gives_up: bool = False) -> bool:
        """Wait until the server has stored everything emitted so far. Return False on timeout.

        With `gives_up` it does not wait for a server that rejects the key or is unreachable for a few seconds.
        """
        return self._pipeline is not None and self._pipeline.flush(timeout_s, gives_up=gives_up)

    @property
    def lasting_failure(self) -> str | None:
        """The reason why nothing can be delivered now and waiting does not help, or None."""
        return self._pipeline.lasting_failure if self._pipeline is not None else None

    def close(self, timeout_s: float | None = None) -> None:
        """Send as much as possible within the timeout. The rest stays on disk for the next process."""
        if self._pipeline is not None:
            self._pipeline.close(timeout_s)

    def stats(self) -> dict[str, int]:
        """Return the totals since this process started, and the number of events queued and spooled now.

        `dropped` did not fit into the queue or the spool. `damaged` were in spool files that cannot be read.
        """
        return {
            "sent": self._counts.sent,
            "rejected": self._counts.rejected,
            "dropped": self._counts.dropped,
            "damaged": self._counts.damaged,
            "failures": self._counts.failures,
            "queued": self._queue.queued,
            "spooled": self._pipeline.spooled if self._pipeline is not None else 0,
        }


class _NoQueue:
    """Takes the place of the queue when there is no address. It accepts nothing."""

    queued = 0

    def put(self, item: dict[str, Any]) -> bool:
        return False
