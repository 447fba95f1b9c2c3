"""Archive transcripts on an Ariadne server, where auditors can find, verify and download them.

`save_transcript` writes the transcript to the local disk before it returns, and a background thread uploads it. An
unreachable server therefore delays neither the agent nor the compaction. The result is `queued`, and the listener gets
the server's answer. Without a spool directory the upload happens immediately and a failure is raised, because no other
copy exists.

If the server already has other content for a step, for example from before a restart, it answers with the next free
step, and the transcript is stored under that one.
"""

from __future__ import annotations

import gzip
import json
import os
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from compact.adapters.transcript import Transcript
from compact.delivery.counts import Counts
from compact.delivery.drops import DropReport
from compact.delivery.endpoint import Endpoint
from compact.delivery.pipeline import Pipeline
from compact.delivery.segments import Record
from compact.exceptions import CompactError
from compact.messages import Message
from compact.protocols import ArchiveResult

_MAX_SESSIONS = 10_000
_PROCESS = secrets.token_hex(8)
"""Marks the records that this process wrote. Others are left from an earlier one."""


class AriadneStorage:
    """Uploads transcripts to an Ariadne server.

    `AriadneStorage(url="http://127.0.0.1:8000", api_key=…)`. Both default to ARIADNE_URL and ARIADNE_API_KEY.
    """

    name = "ariadne"

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 10.0,
        spool_dir: str | os.PathLike[str] | None = "",
        spool_bytes: int = 256 * 1024 * 1024,
        max_backoff_s: float = 30.0,
        exit_timeout_s: float = 5.0,
    ) -> None:
        endpoint = Endpoint.resolve(url, api_key, "/ingest/transcripts")
        counts = Counts()
        self.url = endpoint.url
        self._exit_timeout_s = exit_timeout_s
        self._steps: OrderedDict[str, tuple[int, str]] = OrderedDict()
        """The last step of each session, and the digest of its transcript."""
        self._results: OrderedDict[tuple[str, str], ArchiveResult] = OrderedDict()
        self._listeners: list[Callable[[ArchiveResult], None]] = []
        self._lock = threading.Lock()
        self._pipeline = Pipeline(
            endpoint,
            TranscriptEncoder(self._accept_result),
            counts,
            thread_name="compact-archive",
            spool_dir=spool_dir,
            spool_bytes=spool_bytes,
            timeout_s=timeout_s,
            max_backoff_s=max_backoff_s,
            exit_timeout_s=exit_timeout_s,
        )

    def save_transcript(
        self, session_id: str, transcript: Sequence[Message], step: int | None = None
    ) -> dict[str, Any]:
        """Store the transcript locally and upload it in the background. Return its name on the server and its hash.

        Raises `CompactError` if the spool is full, or if there is no spool and the server does not store it in time.
        """
        document = Transcript.from_messages(transcript)
        step = self._choose_step(session_id, document.sha256, step)
        subject = f"The transcript of session {session_id!r}, step {step},"
        if not self._pipeline.store(encode_transcript(session_id, step, document)):
            raise CompactError(f"{subject} could not be archived: the spool is full because the server is unreachable.")
        state = "queued"
        if not self._pipeline.is_durable:
            self._pipeline.flush(self._exit_timeout_s, gives_up=True)
            with self._lock:
                result = self._results.pop((session_id, document.sha256), None)
            if result is None or result.error is not None:
                reason = f": {result.error}" if result else " in time"
                raise CompactError(f"{subject} could not be archived on the server{reason}.")
            step, state = result.step, "stored"
        return document.receipt(step, state=state, key=f"ariadne:{session_id}/{step}")

    def listen(self, listener: Callable[[ArchiveResult], None]) -> None:
        """Report the server's answer to each queued transcript to this method."""
        with self._lock:
            self._listeners.append(listener)

    def _choose_step(self, session_id: str, sha256: str, step: int | None) -> int:
        """Return the step to ask for. It is after the last known one, unless the content is the same."""
        with self._lock:
            last, last_sha256 = self._steps.get(session_id, (0, ""))
            chosen = last if sha256 == last_sha256 else max(step or 1, last + 1)
            self._remember(session_id, chosen, sha256)
        return chosen

    def _remember(self, session_id: str, step: int, sha256: str) -> None:
        self._steps[session_id] = (step, sha256)
        self._steps.move_to_end(session_id)
        if len(self._steps) > _MAX_SESSIONS:
            self._steps.popitem(last=False)

    def _accept_result(self, result: ArchiveResult, sender: str | None) -> None:
        """Pass the server's answer on. Runs on the worker thread."""
        is_own = sender == _PROCESS
        with self._lock:
            # The server may have stored the transcript under a later step than asked for. The next one comes after it.
            if result.error is None and result.step >= self._steps.get(result.session_id, (0, ""))[0]:
                self._remember(result.session_id, result.step, result.sha256)
            if not self._pipeline.is_durable:
                self._results[result.session_id, result.sha256] = result
                if len(self._results) > _MAX_SESSIONS:
                    self._results.popitem(last=False)
            listeners = list(self._listeners)
        if is_own:
            for listener in listeners:
                listener(result)
        # No caller in this process waits for the result. One listener reports it, or each manager would.
        elif listeners:
            listeners[0](replace(result, is_from_earlier_process=True))

    def save_summary(self, session_id: str, summary: Message, step: int) -> None:
        """Do nothing: the summary is in the payload of `compact.summary_created`."""

    def save_event(self, session_id: str, event: dict[str, Any]) -> None:
        """Do nothing: the exporter sends events."""

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until the server has stored every transcript. Return False on timeout."""
        return self._pipeline.flush(timeout_s)

    @property
    def lasting_failure(self) -> str | None:
        """The reason why nothing can be uploaded now and waiting does not help, or None."""
        return self._pipeline.lasting_failure

    def close(self, timeout_s: float | None = None) -> None:
        """Upload as much as possible within the timeout. The rest stays on disk for the next process."""
        self._pipeline.close(timeout_s)

    def stats(self) -> dict[str, int]:
        """Return the transcripts sent and rejected, the failed attempts, and the transcripts waiting."""
        counts = self._pipeline.counts
        return {
            "sent": counts.sent,
            "rejected": counts.rejected,
            "failures": counts.failures,
            "waiting": self._pipeline.spooled,
        }


class TranscriptEncoder:
    """The wire format of `POST /ingest/transcripts`.

    A record starts with one JSON line, the query of its request, so that another process can send it. `on_result` gets
    the answer of the server, and the id of the process that wrote the record.
    """

    content_type = "application/x-ndjson"
    noun = "transcript"
    last_session_id: str | None = None
    merge_limit = 1

    def __init__(self, on_result: Callable[[ArchiveResult, str | None], None]) -> None:
        self._on_result = on_result

    def encode(self, items: list[Any]) -> list[Record]:
        """Return nothing: transcripts are spooled before they get here."""
        return []

    def merge(self, records: list[Record]) -> tuple[int, Record]:
        """Return the first record: transcripts are uploaded one by one."""
        return 1, records[0]

    def report_drops(self, report: DropReport) -> None:
        """Return nothing: a transcript that does not fit is an error of its compaction."""

    def request(self, record: Record) -> tuple[str, bytes]:
        """Return the query and the body of a record's request."""
        query, body = _read_record(record)
        return urlencode({name: value for name, value in query.items() if name != "sender"}), body

    def split(self, record: Record) -> list[Record]:
        """Return nothing: a transcript is uploaded as a whole."""
        return []

    def is_confirmed(self, record: Record, body: Mapping[str, Any]) -> bool:
        """Return True if the answer is about the transcript of a record."""
        query, _ = _read_record(record)
        return body.get("session") == query["session"] and isinstance(body.get("sha256"), str)

    def resolve_conflict(self, record: Record, body: Mapping[str, Any]) -> list[Record]:
        """Return the transcript with the next free step, if the server has named it."""
        next_step = body.get("next_step")
        query, content = _read_record(record)
        if not isinstance(next_step, int) or next_step <= query["step"]:
            return []
        return [Record(json.dumps({**query, "step": next_step}).encode() + b"\n" + content, record.count)]

    def report(self, record: Record, status: int, body: Mapping[str, Any]) -> None:
        """Report whether the server has stored the transcript."""
        query, _ = _read_record(record)
        error = None if status < 300 else f"HTTP {status}: {body.get('error') or 'rejected'}"
        result = ArchiveResult(query["session"], query["sha256"], query["step"], error)
        self._on_result(result, query.get("sender"))

    def describe(self, record: Record) -> str:
        """Return the session and step of the transcript."""
        query, _ = _read_record(record)
        return f"the transcript of session {query['session']!r}, step {query['step']},"


def _read_record(record: Record) -> tuple[dict[str, Any], bytes]:
    query, _, body = record.body.partition(b"\n")
    return json.loads(query), body


def encode_transcript(session_id: str, step: int, transcript: Transcript) -> Record:
    """Return a transcript as a record for the spool."""
    created_at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    query = {
        "session": session_id,
        "step": step,
        "sha256": transcript.sha256,
        "created_at": created_at,
        "sender": _PROCESS,
    }
    return Record(json.dumps(query).encode() + b"\n" + gzip.compress(transcript.body, 6, mtime=0), 1)
