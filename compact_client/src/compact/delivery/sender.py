"""Send spooled records to the server, with retries.

Runs on the worker thread. A record leaves the spool when an Ariadne server has answered for it: JSON that says that
everything was stored, or why not. A captive portal or a proxy that answers instead has stored nothing, whatever its
status is. The record is then sent again, as after an interrupted request. The server is idempotent.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from compact.delivery import fast_json
from compact.delivery.backoff import Backoff, parse_retry_after
from compact.delivery.counts import Counts
from compact.delivery.drops import DropReport, Drops
from compact.delivery.endpoint import Endpoint
from compact.delivery.segments import Record
from compact.delivery.spool import Spool
from compact.delivery.stderr import log_problem

if TYPE_CHECKING:
    import httpx

_REPEAT_WARNING_S = 60.0
_MISCONFIGURED_RETRY_S = 30.0
# A server that restarts behind a load balancer accepts connections again within this time.
_NO_CONNECTION_S = 3.0
# While other records wait, drops are reported this often.
_REPORT_INTERVAL_S = 10.0
# Ariadne's own answers after which a record is sent again. The last are those of an unexpected address.
_BUSY, _WRONG_KEY, _WRONG_ADDRESS = (408, 425, 429), (401, 403), (404, 405, 410)
_RETRIED = {*_BUSY, *_WRONG_KEY, *_WRONG_ADDRESS}


class Encoder(Protocol):
    """The wire format of one endpoint."""

    content_type: str
    noun: str
    """Name of one item in log lines, such as "event"."""

    last_session_id: str | None
    """The session of the last item, in which a report of drops is shown."""
    merge_limit: int
    """The number of items up to which small records are sent together."""

    def encode(self, items: list[Any]) -> Iterable[Record]:
        """Return the items as records."""

    def merge(self, records: list[Record]) -> tuple[int, Record]:
        """Return how many of the first records fit into one request, and one record with all their items."""

    def report_drops(self, report: DropReport) -> Record | None:
        """Return a record that reports dropped items, or None if the format has none."""

    def request(self, record: Record) -> tuple[str, bytes]:
        """Return the query string and the gzip-compressed body of a record's request."""

    def split(self, record: Record) -> list[Record]:
        """Return smaller records with the same items, or none if the record cannot be split."""

    def is_confirmed(self, record: Record, body: Mapping[str, Any]) -> bool:
        """Return True if the server's answer says that it has stored or rejected each item of a record."""

    def resolve_conflict(self, record: Record, body: Mapping[str, Any]) -> list[Record]:
        """Return the records to send instead of one that was answered with 409, or none."""

    def report(self, record: Record, status: int, body: Mapping[str, Any]) -> None:
        """Report the server's final answer."""

    def describe(self, record: Record) -> str:
        """Return the subject of a log line, such as "12 events"."""


@dataclass(frozen=True, slots=True)
class Response:
    """The server's answer to one request."""

    status: int
    retry_after_s: float | None
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why the last request must be sent again."""

    problem: str
    since: float
    """The time of the first failure in a row."""
    is_rejected_key: bool = False
    has_no_connection: bool = False

    @property
    def is_lasting(self) -> bool:
        """True if waiting does not help: a rejected key, or an address that nothing has listened on for seconds."""
        return self.is_rejected_key or (self.has_no_connection and time.monotonic() - self.since > _NO_CONNECTION_S)


class Sender:
    """Posts the records of a spool to an endpoint, one at a time."""

    def __init__(
        self,
        endpoint: Endpoint,
        encoder: Encoder,
        spool: Spool,
        counts: Counts,
        drops: Drops,
        *,
        timeout_s: float,
        max_backoff_s: float,
    ) -> None:
        # The worker imports nothing. A child that is forked during an import would keep a half imported module for good
        # and could never send, and openai looks for httpx in `sys.modules`. httpx loads httpcore with the first
        # client, and sockets load the codec with the first address.
        import encodings.idna  # noqa: F401

        import httpcore  # noqa: F401
        import httpx  # noqa: F401

        fast_json.load()
        self._endpoint = endpoint
        self._encoder = encoder
        self._spool = spool
        self._counts = counts
        self._drops = drops
        self._timeout_s = timeout_s
        self._backoff = Backoff(max_backoff_s)
        self.reset()

    def reset(self) -> None:
        """Drop the connection and the retry state, as a forked child must."""
        self._client: httpx.Client | None = None
        self._warned_at: float | None = None
        self.failure: Failure | None = None
        self._reported_at = 0.0
        self._max_items = self._encoder.merge_limit
        self._backoff.reset()

    @property
    def is_failing(self) -> bool:
        """True if the last request failed and will be retried."""
        return self._backoff.failures > 0

    def step(self) -> float | None:
        """Send one record.

        Return the seconds until the next step is due, 0 to continue immediately, or None if the spool is empty.
        """
        batch = self._spool.peek(self._max_items)
        report = None if batch and not self._is_report_due else self._report()
        if report is None and not batch:
            return None
        if delay := self._backoff.remaining_s:
            return delay
        if report is not None:
            answer = self._try_post(report[1])
        else:
            batch, record = self._merge(batch)
            answer = self._try_post(record)
        if answer is None:
            # Never 0, which means "continue immediately": a closing worker stops here instead of retrying.
            return max(0.001, self._backoff.remaining_s)
        if report is not None:
            self._settle_report(*report, answer[0])
        else:
            self._settle(batch, record, *answer)
        self._recover()
        return 0.0

    def stop(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()

    def _recover(self) -> None:
        """Forget failed attempts after an answer."""
        if self.is_failing:
            pending = self._spool.pending
            suffix = f" Sending {pending} pending {self._encoder.noun}s." if pending else ""
            log_problem("Ariadne", f"{self._endpoint.display_url} is reachable again.{suffix}")
        self._warned_at = None
        self.failure = None
        self._backoff.reset()

    def _merge(self, batch: list[Record]) -> tuple[list[Record], Record]:
        """Return the records to send now, and one record with all their items."""
        count, record = (1, batch[0]) if len(batch) == 1 else self._encoder.merge(batch)
        return batch[:count], record

    @property
    def _is_report_due(self) -> bool:
        return time.monotonic() - self._reported_at >= _REPORT_INTERVAL_S

    def _report(self) -> tuple[DropReport, Record] | None:
        """Return a report of drops that the server does not know of yet."""
        report = self._drops.next_report()
        record = self._encoder.report_drops(report) if report is not None else None
        return (report, record) if report is not None and record is not None else None

    def _settle_report(self, report: DropReport, record: Record, response: Response) -> None:
        self._reported_at = time.monotonic()
        self._drops.confirm(report)
        if response.status >= 300 or rejected_items(response.body):
            log_problem("Ariadne", f"The server rejected the report of {report.count:,} dropped {self._encoder.noun}s.")

    def _settle(self, batch: list[Record], record: Record, response: Response, parts: list[Record]) -> None:
        """Replace the records of a request by its parts, or remove them and count their items."""
        # Before the record is removed: a process that dies in between sends the items twice instead of never.
        for part in parts:
            self._spool.append(part)
        # If the spool was closed during the request, the next process sends the record again.
        if not self._spool.remove(batch) or parts:
            return
        rejected = rejected_items(response.body)
        subject = self._encoder.describe(record)
        if response.status < 300:
            self._counts.sent += record.count - len(rejected)
            self._counts.rejected += len(rejected)
            if rejected:
                log_problem("Ariadne", f"The server rejected {len(rejected)} of {subject}. First error: {rejected[0]}")
        else:
            self._counts.rejected += record.count
            reason = rejected[:1] or dict(response.body)
            log_problem("Ariadne", f"The server rejected {subject} with HTTP {response.status}: {reason}")
        self._encoder.report(record, response.status, response.body)

    def _try_post(self, record: Record) -> tuple[Response, list[Record]] | None:
        """Post a record. Return the server's answer and what to send instead, or None if it must be sent again."""
        try:
            response = self._post(record)
        except Exception as error:
            import httpx

            has_no_connection = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
            self._fail(f"{type(error).__name__}: {error}".strip(": "), has_no_connection=has_no_connection)
            return None
        parts = self._parts(record, response)
        if not parts and not self._is_final(record, response):
            self._fail_response(response)
            return None
        return response, parts

    def _parts(self, record: Record, response: Response) -> list[Record]:
        """Return the records to send instead of one that is too large or conflicts with another."""
        if response.status == 413:
            if record.count > 1:
                # Otherwise the halves would be merged again.
                self._max_items = min(self._max_items, record.count // 2)
            return self._encoder.split(record)
        if response.status == 409:
            return self._encoder.resolve_conflict(record, response.body)
        return []

    def _is_final(self, record: Record, response: Response) -> bool:
        """Return True for an Ariadne server's own answer that it has stored or rejected the items of a record."""
        if response.status < 300:
            return response.body.get("success") is True and self._encoder.is_confirmed(record, response.body)
        is_error = response.body.get("success") is False and isinstance(response.body.get("code"), str)
        return is_error and 400 <= response.status < 500 and response.status not in _RETRIED

    def _fail_response(self, response: Response) -> None:
        """Schedule a retry after a response that says nothing about the record."""
        status = response.status
        if status in _BUSY or status >= 500:
            self._fail(f"HTTP {status}", retry_after_s=response.retry_after_s)
        elif status in _WRONG_KEY:
            problem = f"HTTP {status}: the server rejected the ingest key, check ARIADNE_API_KEY"
            self._fail(problem, retry_after_s=_MISCONFIGURED_RETRY_S, is_rejected_key=True)
        elif status < 300 and response.body.get("success") is True:
            self._fail(f"HTTP {status}: the server did not confirm everything that was sent")
        else:
            problem = f"HTTP {status}: no Ariadne server answers at this address, check ARIADNE_URL "
            problem += "or run `compactctl doctor`"
            self._fail(problem, retry_after_s=_MISCONFIGURED_RETRY_S, is_repeated=False)

    def _post(self, record: Record) -> Response:
        import httpx

        query, content = self._encoder.request(record)
        url = f"{self._endpoint.url}?{query}" if query else self._endpoint.url
        deadline = time.monotonic() + self._timeout_s
        with self._connect().stream("POST", url, content=content) as response:
            chunks = []
            for chunk in response.iter_bytes():
                chunks.append(chunk)
                # httpx limits each read. This limits the whole response of a server that sends single bytes.
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout(f"the response took longer than {self._timeout_s} s")
        try:
            body = httpx.Response(200, content=b"".join(chunks)).json()
        except ValueError:
            body = {}
        retry_after_s = parse_retry_after(response.headers.get("retry-after"))
        return Response(response.status_code, retry_after_s, body if isinstance(body, dict) else {})

    def _connect(self) -> httpx.Client:
        import httpx

        if self._client is None:
            headers = {
                "User-Agent": "compact-client",
                "Content-Type": self._encoder.content_type,
                "Content-Encoding": "gzip",
            }
            if self._endpoint.api_key:
                headers["Authorization"] = f"Bearer {self._endpoint.api_key}"
            self._client = httpx.Client(headers=headers, timeout=self._timeout_s)
        return self._client

    def _fail(
        self,
        problem: str,
        *,
        retry_after_s: float | None = None,
        is_repeated: bool = True,
        is_rejected_key: bool = False,
        has_no_connection: bool = False,
    ) -> None:
        """Schedule a retry and log the problem, again after a minute if it `is_repeated`."""
        self._counts.failures += 1
        delay_s = self._backoff.fail(retry_after_s)
        now = time.monotonic()
        since = self.failure.since if self.failure else now
        self.failure = Failure(problem, since, is_rejected_key, has_no_connection)
        if self._warned_at is not None and (not is_repeated or now - self._warned_at < _REPEAT_WARNING_S):
            return
        self._warned_at = now
        place = "on disk" if self._spool.is_durable else "in memory"
        log_problem(
            "Ariadne",
            f"Cannot send to {self._endpoint.display_url} ({problem}). "
            f"Unsent {self._encoder.noun}s are kept {place}. Next attempt in {delay_s:.1f} s.",
        )


def rejected_items(body: Mapping[str, Any]) -> list[Any]:
    """Return the items of a record that the server rejected, with their reasons."""
    rejected = body.get("rejected")
    return rejected if isinstance(rejected, list) else []
