"""Take records from the spool to the server, with patience: retries, jitter, Retry-After, one complaint an outage.

Runs on one worker thread. A record leaves the spool only when the server has answered for it, so that whatever happens
in between, it is sent again; the server is idempotent.
"""

from __future__ import annotations

import hashlib
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from compact.delivery.spool import DiskSpool, MemorySpool, Record, Store
from compact.delivery.stderr import say
from compact.exceptions import ConfigError

if TYPE_CHECKING:
    import httpx

DEFAULT_URL = "http://127.0.0.1:8000"
_REPEAT_COMPLAINT_S = 60.0
_REFUSED_RETRY_S = 30.0


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One POST: where to, with what."""

    url: str
    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said for good; 4xx included, a reason to retry not."""

    status: int
    body: Mapping[str, Any]


class Sender:
    """Owns the spool and the connection. `request` turns a record into a POST, `answered` hears the server's word."""

    _spool: Store

    def __init__(
        self,
        *,
        shown_url: str,
        api_key: str | None,
        spool_dir: Path | None,
        spool_bytes: int,
        timeout_s: float,
        max_backoff_s: float,
        request: Callable[[Record], Outgoing],
        answered: Callable[[Record, Answer], None],
    ) -> None:
        # Loaded here and not by the worker: openai looks httpx up in `sys.modules`, and would find it half loaded.
        import httpx  # noqa: F401

        self.counts: Counter[str] = Counter()
        self.spool_dir = spool_dir
        self._shown_url = shown_url
        self._api_key = api_key
        self._spool_bytes = spool_bytes
        self._timeout_s = timeout_s
        self._max_backoff_s = max_backoff_s
        self._request = request
        self._answered = answered
        self.reset()

    def reset(self) -> None:
        """Start afresh, as a forked child must: the parent goes on sending its own."""
        self.lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._failures = 0
        self._retry_at = 0.0
        self._complained_at = 0.0
        self._is_away = False
        self.counts = Counter()
        self._spool = self._open_spool()

    @property
    def waiting(self) -> int:
        return self._spool.events

    def keep(self, record: Record) -> None:
        """Take a record over; from here on it survives the process."""
        with self.lock:
            try:
                dropped = self._spool.append(record)
            except OSError as error:
                say("Ariadne", f"cannot write to the spool ({error}); what waits is kept in memory only")
                self.spool_dir = None
                self._spool = MemorySpool()
                dropped = self._spool.append(record)
        self.counts["dropped"] += dropped

    def step(self) -> float | None:
        """Send one record. Seconds until the next step is due, 0 for at once, None if nothing waits."""
        with self.lock:
            record = self._peek()
        if record is None:
            return None
        wait = self._retry_at - time.monotonic()
        if wait > 0:
            return wait
        answer = self._send(record)
        if answer is None:
            return max(0.001, self._retry_at - time.monotonic())
        with self.lock:
            # The spool was closed while the request was under way: the record goes out again, with the next process.
            if self._peek() is None:
                return None
            self._spool.ack()
        self._answered(record, answer)
        if self._is_away:
            say("Ariadne", f"{self._shown_url} is reachable again; {self.waiting} waiting events follow")
        self._failures, self._retry_at, self._complained_at, self._is_away = 0, 0.0, 0.0, False
        return 0.0

    def stop(self) -> None:
        """Close the connection; called on the worker's thread."""
        if self._client is not None:
            self._client.close()

    def close(self) -> int:
        """Close the spool and return how many events are lost: none, if they lie on disk."""
        with self.lock:
            waiting = self._spool.events
            self._spool.close()
            self._spool = MemorySpool()
        if waiting and self.spool_dir is None:
            say("Ariadne", f"{waiting} events could not be sent to {self._shown_url} and are lost (no spool directory)")
            return waiting
        if waiting and not self._is_away:
            say("Ariadne", f"{waiting} events for {self._shown_url} could not be sent in time and wait on disk")
        return 0

    def _open_spool(self) -> Store:
        if self.spool_dir is None:
            return MemorySpool()
        try:
            return DiskSpool(self.spool_dir, max_bytes=self._spool_bytes)
        except OSError as error:
            say("Ariadne", f"cannot spool to {self.spool_dir} ({error}); what waits is kept in memory only")
            self.spool_dir = None
            return MemorySpool()

    def _peek(self) -> Record | None:
        try:
            return self._spool.peek()
        except OSError as error:
            say("Ariadne", f"cannot read the spool ({error})")
            self._spool = MemorySpool()
            return None

    def _send(self, record: Record) -> Answer | None:
        """One POST; None if it must be tried again later."""
        try:
            status, headers, body = self._post(self._request(record))
        except Exception as error:
            self._back_off(f"{type(error).__name__}: {error}".strip(": "))
            return None
        if status in (408, 425, 429) or status >= 500:
            self._back_off(f"HTTP {status}", retry_after_s=_seconds(headers.get("retry-after")))
            return None
        if status in (401, 403):
            self._back_off(f"HTTP {status}: the ingest key was refused", retry_after_s=_REFUSED_RETRY_S)
            return None
        return Answer(status, body)

    def _post(self, outgoing: Outgoing) -> tuple[int, Any, dict[str, Any]]:
        import httpx

        if self._client is None:
            headers = {"User-Agent": "compact-client"}
            if self._api_key:
                headers["Authorization"] = f"Bearer {self._api_key}"
            self._client = httpx.Client(headers=headers, timeout=self._timeout_s)
        deadline = time.monotonic() + self._timeout_s
        # httpx limits each read; a server that answers byte by byte is held to the whole time here.
        with self._client.stream(
            "POST", outgoing.url, content=outgoing.content, headers=dict(outgoing.headers)
        ) as response:
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
        self.counts["failures"] += 1
        self._failures += 1
        ceiling = min(self._max_backoff_s, 0.25 * 2 ** min(self._failures, 10))
        # Jitter, so that many agents do not come back to a recovering server at once.
        wait = retry_after_s if retry_after_s is not None else random.uniform(ceiling / 2, ceiling)  # noqa: S311
        now = time.monotonic()
        self._retry_at = now + min(wait, self._max_backoff_s)
        self._is_away = True
        if now - self._complained_at >= _REPEAT_COMPLAINT_S or self._complained_at == 0.0:
            self._complained_at = now
            where = "on disk" if self.spool_dir is not None else "in memory"
            say("Ariadne", f"{self._shown_url}: {problem}; events wait {where}, next try in {wait:.1f} s")


def server_url(given: str | None, path: str) -> str:
    """The address of one endpoint of the server, whether or not /ingest was given; ARIADNE_URL if nothing was."""
    url = given or os.environ.get("ARIADNE_URL") or DEFAULT_URL
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("ariadne.url", f"must be an http or https address, not {without_credentials(url)!r}")
    base = parts.path.rstrip("/").removesuffix("/ingest")
    return urlunsplit(parts._replace(path=f"{base}{path}", query="", fragment=""))


def without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def directory_for(given: str | os.PathLike[str] | None, url: str) -> Path | None:
    """Where to spool for this address: "" for the default place, None for nowhere."""
    if given is None:
        return None
    root = Path(given or os.environ.get("COMPACT_SPOOL_DIR") or _state_dir())
    # One folder an address, not an ingest key: after a key is renewed, what waited can still be sent.
    return root / hashlib.sha256(without_credentials(url).encode()).hexdigest()[:16]


def _state_dir() -> Path:
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path("~/.local/state").expanduser()) / "compact" / "spool"


def _seconds(value: str | None) -> float | None:
    try:
        return max(0.0, float(value)) if value else None
    except ValueError:
        return None
