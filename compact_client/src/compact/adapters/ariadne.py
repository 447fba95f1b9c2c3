"""Archive to an Ariadne server, where auditors find, check and download it.

The transcript is on the local disk before `save_transcript` returns, and goes to the server from a thread: an archive
that is away stops neither the agent nor its compaction, and nothing is lost. Without a spool directory the upload
happens at once, and its failure is raised, for then nothing else holds the transcript.
"""

from __future__ import annotations

import atexit
import gzip
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from compact.adapters.transcript import transcript_of
from compact.delivery.batcher import Batcher, Sink
from compact.delivery.sender import Answer, Outgoing, Sender, directory_for, server_url, without_credentials
from compact.delivery.spool import Record
from compact.delivery.stderr import say
from compact.exceptions import CompactError
from compact.messages import Message

_HEADERS = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}


class AriadneStorage(Sink):
    """`AriadneStorage(url="http://127.0.0.1:8000", api_key=…)`, or from ARIADNE_URL and ARIADNE_API_KEY."""

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
        self.url = server_url(url, "/ingest/transcripts")
        self._exit_timeout_s = exit_timeout_s
        self._steps: dict[str, int] = {}
        self._sender = Sender(
            shown_url=without_credentials(self.url),
            api_key=api_key or os.environ.get("ARIADNE_API_KEY"),
            spool_dir=directory_for(spool_dir, self.url),
            spool_bytes=spool_bytes,
            timeout_s=timeout_s,
            max_backoff_s=max_backoff_s,
            request=self._request,
            answered=self._answered,
        )
        self._batcher = Batcher(self, max_queue=1_000, max_batch=1, interval_s=0.0, name="compact-archive")
        self._batcher.start()
        atexit.register(self.close)

    def save_transcript(
        self, session_id: str, transcript: Sequence[Message], step: int | None = None
    ) -> dict[str, Any]:
        """Keep the transcript and have it sent; returns its name at the server and its hash."""
        made = transcript_of(transcript)
        if step is None:
            step = self._steps.get(session_id, 0) + 1
        self._steps[session_id] = step
        created_at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        query = {"session": session_id, "step": step, "sha256": made.sha256, "created_at": created_at}
        # The head of the record says where it goes, so that another process can send it.
        head = json.dumps(query).encode()
        self._sender.keep(Record(head + b"\n" + gzip.compress(made.body, 6, mtime=0), 1))
        if self._sender.spool_dir is None:
            self._upload_now(session_id, step)
        else:
            self._batcher.put({})
        return {
            "key": f"ariadne:{session_id}/{step}",
            "step": step,
            "sha256": made.sha256,
            "message_count": made.message_count,
        }

    def save_summary(self, session_id: str, summary: Message, step: int) -> None:
        """Nothing to do: the summary is in the payload of `compact.summary_created`."""

    def save_event(self, session_id: str, event: dict[str, Any]) -> None:
        """Nothing to do: events are what the exporter sends."""

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until the server has everything; False if that took longer."""
        return self._batcher.flush(timeout_s)

    def close(self, timeout_s: float | None = None) -> None:
        atexit.unregister(self.close)
        self._batcher.close(self._exit_timeout_s if timeout_s is None else timeout_s)
        self._sender.close()

    def stats(self) -> dict[str, int]:
        """Transcripts sent and rejected, failed tries, and how many wait."""
        counts = {name: self._sender.counts[name] for name in ("sent", "rejected", "failures")}
        return {**counts, "waiting": self._sender.waiting}

    # The worker's side.

    def accept(self, events: list[dict[str, Any]]) -> None:
        """The queue only wakes the worker; transcripts are in the spool by then."""

    def work(self) -> float | None:
        return self._sender.step()

    def stop(self) -> None:
        self._sender.stop()

    def after_fork(self) -> None:
        self._sender.reset()

    def _upload_now(self, session_id: str, step: int) -> None:
        rejected = self._sender.counts["rejected"]
        if not self._batcher.flush(self._exit_timeout_s) or self._sender.counts["rejected"] > rejected:
            raise CompactError(f"the transcript of {session_id!r}, step {step}, could not be archived at the server")

    def _request(self, record: Record) -> Outgoing:
        head, _, body = record.body.partition(b"\n")
        return Outgoing(f"{self.url}?{urlencode(json.loads(head))}", body, _HEADERS)

    def _answered(self, record: Record, answer: Answer) -> None:
        if answer.status < 300:
            self._sender.counts["sent"] += 1
            return
        self._sender.counts["rejected"] += 1
        query = json.loads(record.body.partition(b"\n")[0])
        what = f"the transcript of {query['session']!r}, step {query['step']}"
        say("Ariadne", f"HTTP {answer.status}: {what} was not archived: {dict(answer.body)}")
