"""Send events to an Ariadne server without the agent noticing.

`emit` appends to a bounded queue and returns; a daemon thread writes batches to the spool, sends them (gzip, 2 s) and
takes them off when the server has committed. A server that is away, slow or gone costs the agent nothing: events
wait on disk and are replayed, by the next process if need be. Nothing here raises into the agent; what goes wrong is
one `[Ariadne]` line on stderr, and a counter.
"""

from __future__ import annotations

import atexit
import os
import time
from typing import Any

from compact.delivery.batcher import Batcher, Sink
from compact.delivery.sender import Answer, Outgoing, Sender, directory_for, server_url, without_credentials
from compact.delivery.spool import Record
from compact.delivery.stderr import say
from compact.exceptions import ConfigError
from compact.exporters import wire

MAX_TIMEOUT_S = 2.0
_HEADERS = {"Content-Type": "application/json", "Content-Encoding": "gzip"}


class AriadneExporter(Sink):
    """`AriadneExporter(url="http://127.0.0.1:8000", api_key=…)`, or from ARIADNE_URL and ARIADNE_API_KEY.

    `url` may end in /ingest. `spool_dir=None` keeps waiting events in memory only; by default they lie in
    `COMPACT_SPOOL_DIR`, else under the user's state directory, up to `spool_bytes`.
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
        self.url = server_url(url, "/ingest")
        self._max_batch = max_batch
        self._max_body_bytes = max_body_bytes
        self._exit_timeout_s = exit_timeout_s
        self._last_session: str | None = None
        self._reported_drops = 0
        self._sender = Sender(
            shown_url=without_credentials(self.url),
            api_key=api_key or os.environ.get("ARIADNE_API_KEY"),
            spool_dir=directory_for(spool_dir, self.url),
            spool_bytes=spool_bytes,
            timeout_s=timeout_s,
            max_backoff_s=max_backoff_s,
            request=lambda record: Outgoing(self.url, record.body, _HEADERS),
            answered=self._answered,
        )
        self._batcher = Batcher(
            self, max_queue=max_queue, max_batch=max_batch, interval_s=flush_interval_s, name="compact-ariadne"
        )
        # At once, and not with the first event: what a dead process left behind should not wait for one.
        self._batcher.start()
        atexit.register(self.close)

    def emit(self, event: dict[str, Any]) -> None:
        """Queue the event; it belongs to the exporter from here on and must not be changed."""
        if not self._batcher.put(event):
            self._sender.counts["dropped"] += 1
            self._last_session = event.get("session_id") or self._last_session

    def flush(self, timeout_s: float = 2.0) -> bool:
        """Wait until everything emitted so far is stored by the server; False if that took longer."""
        return self._batcher.flush(timeout_s)

    def close(self, timeout_s: float | None = None) -> None:
        """Send what can be sent in the time given; the rest stays on disk for the next process."""
        atexit.unregister(self.close)
        rest = self._batcher.close(self._exit_timeout_s if timeout_s is None else timeout_s)
        if rest:
            self.accept(rest)
        self._sender.close()

    def stats(self) -> dict[str, int]:
        """Counts since the start: sent, rejected, dropped, failures; and queued, spooled now."""
        counts = {name: self._sender.counts[name] for name in ("sent", "rejected", "dropped", "failures")}
        return {**counts, "queued": self._batcher.queued, "spooled": self._sender.waiting}

    # The worker's side, called by the Batcher on its thread.

    def accept(self, events: list[dict[str, Any]]) -> None:
        if self._sender.counts["dropped"] > self._reported_drops:
            events = [*events, self._drop_report()]
        self._last_session = events[-1].get("session_id") or self._last_session
        for record in wire.bodies(events, max_bytes=self._max_body_bytes, max_events=self._max_batch):
            self._sender.keep(record)

    def work(self) -> float | None:
        delay = self._sender.step()
        # A drop is reported even if no further event comes.
        if delay is None and self._sender.counts["dropped"] > self._reported_drops:
            self.accept([self._drop_report()])
            return 0.0
        return delay

    def stop(self) -> None:
        self._sender.stop()

    def after_fork(self) -> None:
        self._reported_drops = 0
        self._sender.reset()

    def _answered(self, record: Record, answer: Answer) -> None:
        if answer.status == 413:
            smaller = wire.halves(record)
            for part in smaller:
                self._sender.keep(part)
            if smaller:
                return
        rejected = answer.body.get("rejected") or []
        if answer.status < 300:
            self._sender.counts["sent"] += record.count - len(rejected)
            self._sender.counts["rejected"] += len(rejected)
            if rejected:
                say("Ariadne", f"{len(rejected)} of {record.count} events rejected, first: {rejected[0]}")
        else:
            self._sender.counts["rejected"] += record.count
            say("Ariadne", f"HTTP {answer.status}: {record.count} events rejected: {rejected[:1] or answer.body}")

    def _drop_report(self) -> dict[str, Any]:
        count = self._sender.counts["dropped"] - self._reported_drops
        self._reported_drops = self._sender.counts["dropped"]
        message = f"{count} events were dropped because the queue or the spool was full"
        say("Ariadne", message)
        return {
            "event": "compact.warning",
            "session_id": self._last_session or "compact-exporter",
            "ts": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "status": "error",
            "properties": {"severity": "high", "code": "events_dropped", "message": message, "count": count},
        }
