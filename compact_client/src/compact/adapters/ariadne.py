"""Archive transcripts on an Ariadne server, where auditors can find, verify and download them.

`save_transcript` writes the transcript to the local disk before it returns, and a background thread uploads it. An
unreachable server therefore delays neither the agent nor the compaction. Without a spool directory the upload happens
immediately and a failure is raised, because no other copy exists.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from compact.adapters.transcript import Transcript
from compact.delivery.counts import Counts
from compact.delivery.endpoint import Endpoint
from compact.delivery.pipeline import Pipeline
from compact.delivery.spool import Record
from compact.delivery.stderr import say
from compact.exceptions import CompactError
from compact.messages import Message


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
        self._steps: dict[str, int] = {}
        self._pipeline = Pipeline(
            endpoint,
            TranscriptEncoder(counts),
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
        """Store the transcript locally and upload it in the background. Return its name on the server and its hash."""
        document = Transcript.from_messages(transcript)
        if step is None:
            step = self._steps.get(session_id, 0) + 1
        self._steps[session_id] = step
        rejected = self._pipeline.counts.rejected
        self._pipeline.store(encode_transcript(session_id, step, document))
        if not self._pipeline.is_durable:
            is_sent = self._pipeline.flush(self._exit_timeout_s)
            if not is_sent or self._pipeline.counts.rejected > rejected:
                raise CompactError(
                    f"The transcript of session {session_id!r}, step {step}, could not be archived on the server."
                )
        return document.receipt(step, key=f"ariadne:{session_id}/{step}")

    def save_summary(self, session_id: str, summary: Message, step: int) -> None:
        """Do nothing: the summary is in the payload of `compact.summary_created`."""

    def save_event(self, session_id: str, event: dict[str, Any]) -> None:
        """Do nothing: the exporter sends events."""

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until the server has stored every transcript. Return False on timeout."""
        return self._pipeline.flush(timeout_s)

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

    A record starts with one JSON line, the query of its request, so that another process can send it.
    """

    content_type = "application/x-ndjson"
    noun = "transcript"

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def encode(self, items: list[Any]) -> list[Record]:
        """Log the drops. Transcripts are spooled before they get here, so there is nothing to encode."""
        if drops := self._counts.take_drops():
            say("Ariadne", f"{drops} transcripts were dropped because the spool was full.")
        return []

    def request(self, record: Record) -> tuple[str, bytes]:
        """Return the query and the body of a record's request."""
        query, _, body = record.body.partition(b"\n")
        return urlencode(json.loads(query)), body

    def split(self, record: Record) -> list[Record]:
        """Return nothing: a transcript is uploaded as a whole."""
        return []

    def describe(self, record: Record) -> str:
        """Return the session and step of the transcript."""
        query = json.loads(record.body.partition(b"\n")[0])
        return f"the transcript of session {query['session']!r}, step {query['step']},"


def encode_transcript(session_id: str, step: int, transcript: Transcript) -> Record:
    """Return a transcript as a record for the spool."""
    created_at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    query = {"session": session_id, "step": step, "sha256": transcript.sha256, "created_at": created_at}
    return Record(json.dumps(query).encode() + b"\n" + gzip.compress(transcript.body, 6, mtime=0), 1)
