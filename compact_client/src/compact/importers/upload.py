"""Send imported events and transcripts, which `LogFile` has redacted, to the server and wait for its answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from compact.adapters import AriadneStorage
from compact.exceptions import CompactError
from compact.exporters import AriadneExporter
from compact.messages import RedactedMessage

# Small enough for the memory, large enough for full batches.
_GROUP = 2_000


class Upload(Protocol):
    """The receiver of imported events."""

    def send(self, events: Iterable[dict[str, Any]]) -> int:
        """Deliver events and return their number."""

    def archive(self, session_id: str, messages: tuple[RedactedMessage, ...], step: int) -> Mapping[str, Any]:
        """Store the prompt before a compaction and return what `compact.archival` reports."""

    def close(self) -> None:
        """Release connections."""


class Undelivered(CompactError):
    """The server did not accept the events."""


class ServerUpload:
    """Sends to a server. `send` returns when the server has stored the events.

    With `gives_up` a rejected key raises `Undelivered` immediately, and an unreachable server after a few seconds.
    """

    def __init__(self, url: str, key: str | None, *, timeout_s: float = 60.0, gives_up: bool = True) -> None:
        self._exporter = AriadneExporter(url, key, spool_dir=None, max_backoff_s=5.0)
        self._storage = AriadneStorage(url, key, spool_dir=None, max_backoff_s=5.0)
        self.timeout_s = timeout_s
        self._gives_up = gives_up

    def send(self, events: Iterable[dict[str, Any]]) -> int:
        """Deliver events. Raise `Undelivered` if the server rejects some or does not answer in time."""
        count = 0
        for count, event in enumerate(events, start=1):
            self._exporter.emit(event)
            if count % _GROUP == 0:
                self._flush()
        self._flush()
        return count

    def archive(self, session_id: str, messages: tuple[RedactedMessage, ...], step: int) -> Mapping[str, Any]:
        """Store the prompt before a compaction. A failure of this one alone does not stop the import."""
        try:
            return self._storage.save_transcript(session_id, messages, step)
        except CompactError as error:
            if self._gives_up and (failure := self._storage.lasting_failure):
                raise Undelivered(_describe_failure(failure)) from None
            return {"state": "failed", "step": step, "message_count": len(messages), "error": str(error)}

    def close(self) -> None:
        """Close the connections. Everything is delivered already."""
        self._exporter.close(0.5)
        self._storage.close(0.5)

    def _flush(self) -> None:
        is_complete = self._exporter.flush(self.timeout_s, gives_up=self._gives_up)
        if not is_complete and (failure := self._exporter.lasting_failure):
            raise Undelivered(_describe_failure(failure))
        stats = self._exporter.stats()
        if not is_complete or stats["rejected"] or stats["dropped"]:
            raise Undelivered("The server did not accept all events. See the lines above.")


def _describe_failure(failure: str) -> str:
    return f"The server did not accept the events ({failure})."


class DryRun:
    """Counts what would be sent, by kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def send(self, events: Iterable[dict[str, Any]]) -> int:
        """Count the events."""
        kinds = [str(event.get("kind") or event["type"]) for event in events]
        self.counts.update(kinds)
        return len(kinds)

    def archive(self, session_id: str, messages: tuple[RedactedMessage, ...], step: int) -> Mapping[str, Any]:
        """Store nothing."""
        return {"state": "queued", "step": step, "message_count": len(messages)}

    def close(self) -> None:
        """Do nothing."""
