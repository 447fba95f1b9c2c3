"""Send events to an Ariadne server without the agent noticing.

`emit` appends to a bounded queue and returns; a daemon thread writes batches to the spool, sends them (gzip, 2 s) and
takes them off when the server has committed. A server that is away, slow or gone costs the agent nothing: events
wait on disk and are replayed, by the next process if need be. Nothing here raises into the agent; what goes wrong is
one `[Ariadne]` line on stderr, and a counter.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from compact.exceptions import ConfigError
from compact.exporters import wire
from compact.exporters.batch import Batcher
from compact.exporters.spool import DiskSpool, MemorySpool, Record, Store
from compact.exporters.stderr import say

if TYPE_CHECKING:
    import httpx

DEFAULT_URL = "http://127.0.0.1:8000"
MAX_TIMEOUT_S = 2.0
_REPEAT_COMPLAINT_S = 60.0
_REFUSED_RETRY_S = 30.0


class AriadneExporter:
    """`AriadneExporter(url="http://127.0.0.1:8000", api_key=…)`, or from ARIADNE_URL and ARIADNE_API_KEY.

    `url` may end in /ingest. `spool_dir=None` keeps waiting events in memory only; by default they lie in
    `COMPACT_SPOOL_DIR`, else under the user's state directory, up to `spool_bytes`.
    """

    _spool: Store

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
        self.url = ingest_url(url or os.environ.get("ARIADNE_URL") or DEFAULT_URL)
        self._api_key = api_key or os.environ.get("ARIADNE_API_KEY")
        self._shown_url = _without_credentials(self.url)
        self._timeout_s = timeout_s
        self._max_batch = max_batch
        self._max_body_bytes = max_body_bytes
        self._max_backoff_s = max_backoff_s
        self._exit_timeout_s = exit_timeout_s
        self._spool_bytes = spool_bytes
        self._spool_dir = _spool_dir(spool_dir, self.url)
        self._counts: Counter[str] = Counter()
        self._last_session: str | None = None
        self._client: httpx.Client | None = None
        self._open()
        self._batcher = Batcher(
            self, max_queue=max_queue, max_batch=max_batch, interval_s=flush_interval_s, name="compact-ariadne"
        )
        self._batcher.start()
        atexit.register(self.close)

    def emit(self, event: dict[str, Any]) -> None:
        """Queue the event; it belongs to the exporter from here on and must not be changed."""
        if not self._batcher.put(event):
            self._counts["dropped"] += 1
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
        with self._lock:
            waiting = self._spool.events
            self._spool.close()
            # A request may still be under way on the worker's thread; what it sent stays on disk and goes out twice.
            self._spool = MemorySpool()
        if waiting and self._spool_dir is None:
            say("Ariadne", f"{waiting} events could not be sent to {self._shown_url} and are lost (no spool directory)")

    def stats(self) -> dict[str, int]:
        """Counts since the start: sent, rejected, dropped, failures; and queued, spooled now."""
        names = ("sent", "rejected", "dropped", "failures")
        counts = {name: self._counts[name] for name in names}
        return {**counts, "queued": self._batcher.queued, "spooled": self._spool.events}

    # The worker's side, called by the Batcher on its thread.

    def accept(self, events: list[dict[str, Any]]) -> None:
        if self._counts["dropped"] > self._reported_drops:
            events = [*events, self._drop_report()]
        self._last_session = events[-1].get("session_id") or self._last_session
        for record in wire.bodies(events, max_bytes=self._max_body_bytes, max_events=self._max_batch):
            self._keep(record)

    def work(self) -> float | None:
        with self._lock:
            record = self._peek()
        if record is None:
            # A drop is reported even if no further event comes.
            if self._counts["dropped"] <= self._reported_drops:
                return None
            self.accept([self._drop_report()])
            return 0.0
        wait = self._retry_at - time.monotonic()
        if wait > 0:
            return wait
        delay = self._send(record)
        return max(0.0, self._retry_at - time.monotonic()) if delay else 0.0

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()

    def after_fork(self) -> None:
        # The parent goes on sending its own; the child shares neither its connection nor its segments.
        self._client = None
        self._counts = Counter()
        self._open()

    def _open(self) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        self._retry_at = 0.0
        self._complained_at = 0.0
        self._is_away = False
        self._reported_drops = 0
        self._spool = self._open_spool()

    def _open_spool(self) -> Store:
        if self._spool_dir is None:
            return MemorySpool()
        try:
            return DiskSpool(self._spool_dir, max_bytes=self._spool_bytes)
        except OSError as error:
            say("Ariadne", f"cannot spool to {self._spool_dir} ({error}); waiting events are kept in memory only")
            self._spool_dir = None
            return MemorySpool()

    def _keep(self, record: Record) -> None:
        with self._lock:
            try:
                dropped = self._spool.append(record)
            except OSError as error:
                say("Ariadne", f"cannot write to the spool ({error}); waiting events are kept in memory only")
                self._spool_dir = None
                self._spool = MemorySpool()
                dropped = self._spool.append(record)
        self._counts["dropped"] += dropped

    def _peek(self) -> Record | None:
        try:
            return self._spool.peek()
        except OSError as error:
            say("Ariadne", f"cannot read the spool ({error})")
            self._spool = MemorySpool()
            return None

    def _send(self, record: Record) -> bool:
        """Try to send one body; true if it must wait."""
        try:
            status, headers, answer = self._post(record.body)
        except Exception as error:
            self._counts["failures"] += 1
            self._back_off(f"{type(error).__name__}: {error}".strip(": "))
            return True
        if status in (408, 425, 429) or status >= 500:
            self._counts["failures"] += 1
            self._back_off(f"HTTP {status}", retry_after_s=_seconds(headers.get("retry-after")))
            return True
        if status in (401, 403):
            self._counts["failures"] += 1
            self._back_off(f"HTTP {status}: the ingest key was refused", retry_after_s=_REFUSED_RETRY_S)
            return True
        self._answered(record, status, answer)
        return False

    def _answered(self, record: Record, status: int, answer: dict[str, Any]) -> None:
        rejected = answer.get("rejected") or []
        with self._lock:
            if self._spool.peek() is None:
                return
            self._spool.ack()
        if status == 413:
            smaller = wire.halves(record)
            if smaller:
                for part in smaller:
                    self._keep(part)
                return
        if status < 300:
            self._counts["sent"] += record.count - len(rejected)
            self._counts["rejected"] += len(rejected)
            if rejected:
                say("Ariadne", f"{len(rejected)} of {record.count} events rejected, first: {rejected[0]}")
        else:
            self._counts["rejected"] += record.count
            say("Ariadne", f"HTTP {status}: {record.count} events rejected: {rejected[:1] or answer}")
        if self._is_away:
            say("Ariadne", f"{self._shown_url} is reachable again; {self._spool.events} waiting events follow")
        self._failures, self._retry_at, self._complained_at, self._is_away = 0, 0.0, 0.0, False

    def _post(self, body: bytes) -> tuple[int, Any, dict[str, Any]]:
        import httpx

        if self._client is None:
            headers = {"Content-Type": "application/json", "Content-Encoding": "gzip", "User-Agent": "compact-client"}
            if self._api_key:
                headers["Authorization"] = f"Bearer {self._api_key}"
            self._client = httpx.Client(headers=headers, timeout=self._timeout_s)
        deadline = time.monotonic() + self._timeout_s
        # httpx limits each read; a server that answers byte by byte is held to the whole time here.
        with self._client.stream("POST", self.url, content=body) as response:
            chunks = []
            for chunk in response.iter_bytes():
                chunks.append(chunk)
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout("the answer took too long")
        try:
            answer = httpx.Response(200, content=b"".join(chunks)).json()
        except ValueError:
            answer = {}
        return response.status_code, response.headers, answer if isinstance(answer, dict) else {}

    def _back_off(self, problem: str, *, retry_after_s: float | None = None) -> None:
        self._failures += 1
        ceiling = min(self._max_backoff_s, 0.25 * 2 ** min(self._failures, 10))
        # Full jitter, so that many agents do not come back to a recovering server at once.
        wait = retry_after_s if retry_after_s is not None else random.uniform(ceiling / 2, ceiling)  # noqa: S311
        now = time.monotonic()
        self._retry_at = now + min(wait, self._max_backoff_s)
        self._is_away = True
        if now - self._complained_at >= _REPEAT_COMPLAINT_S or self._complained_at == 0.0:
            self._complained_at = now
            where = "on disk" if self._spool_dir is not None else "in memory"
            say("Ariadne", f"{self._shown_url}: {problem}; events wait {where}, next try in {wait:.1f} s")

    def _drop_report(self) -> dict[str, Any]:
        count = self._counts["dropped"] - self._reported_drops
        self._reported_drops = self._counts["dropped"]
        message = f"{count} events were dropped because the queue or the spool was full"
        say("Ariadne", message)
        return {
            "event": "compact.warning",
            "session_id": self._last_session or "compact-exporter",
            "ts": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "status": "error",
            "properties": {"severity": "high", "code": "events_dropped", "message": message, "count": count},
        }


def ingest_url(url: str) -> str:
    """The address of /ingest, whether or not the path was given."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("exporter.url", f"must be an http or https address, not {_without_credentials(url)!r}")
    path = parts.path.rstrip("/")
    return urlunsplit(
        parts._replace(path=path if path.endswith("/ingest") else f"{path}/ingest", query="", fragment="")
    )


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _spool_dir(given: str | os.PathLike[str] | None, url: str) -> Path | None:
    if given is None:
        return None
    root = Path(given or os.environ.get("COMPACT_SPOOL_DIR") or _state_dir())
    # One folder an address, and not an ingest key: after a key is renewed, what waited can still be sent.
    return root / hashlib.sha256(_without_credentials(url).encode()).hexdigest()[:16]


def _state_dir() -> Path:
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path("~/.local/state").expanduser()) / "compact" / "spool"


def _seconds(value: str | None) -> float | None:
    try:
        return max(0.0, float(value)) if value else None
    except ValueError:
        return None
