"""Keep summaries that cost a model call, under a key of everything that shaped them.

A hit is byte for byte what was stored. A cache that cannot be read or written is a miss, never an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from compact.messages import Message, canonical_json
from compact.summary.structured_summary import STRUCTURED_SUMMARY_SCHEMA_VERSION, StructuredSummary


@dataclass(frozen=True, slots=True)
class SummaryCacheKey:
    """All that a summary depends on; a change of any part is another summary."""

    content_hash: str
    schema_version: str
    policy_version: str
    model_id: str
    prompt_version: str

    def to_string(self) -> str:
        return ":".join(
            (self.content_hash, self.schema_version, self.policy_version, self.model_id, self.prompt_version)
        )

    @classmethod
    def of(
        cls, messages: Sequence[Message], *, policy_version: str, model_id: str, prompt_version: str
    ) -> SummaryCacheKey:
        """The key of a span: what was said and under which ids, for a summary names its sources; not the time."""
        digest = hashlib.sha256()
        for message in messages:
            digest.update(entry_bytes(message))
        return cls(digest.hexdigest(), STRUCTURED_SUMMARY_SCHEMA_VERSION, policy_version, model_id, prompt_version)


def entry_bytes(message: Message) -> bytes:
    """What of a message shapes a summary, as bytes to hash."""
    entry = {
        "role": message.role,
        "text": message.text,
        "calls": [[call.name, call.arguments] for call in message.tool_calls],
        "id": message.id,
    }
    return canonical_json(entry) + b"\n"


def policy_version(**settings: object) -> str:
    """A short name for the settings that shape a summary."""
    return hashlib.sha256(canonical_json(settings)).hexdigest()[:12]


class SummaryCache(Protocol):
    """Where summaries are kept between calls, processes or machines."""

    def get(self, key: SummaryCacheKey) -> StructuredSummary | None: ...

    def put(self, key: SummaryCacheKey, summary: StructuredSummary) -> None: ...


class MemorySummaryCache:
    """The last summaries of this process; the least recently used goes first."""

    def __init__(self, max_entries: int = 256) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[str, StructuredSummary] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: SummaryCacheKey) -> StructuredSummary | None:
        with self._lock:
            summary = self._entries.get(key.to_string())
            if summary is not None:
                self._entries.move_to_end(key.to_string())
            return summary

    def put(self, key: SummaryCacheKey, summary: StructuredSummary) -> None:
        with self._lock:
            self._entries[key.to_string()] = summary
            self._entries.move_to_end(key.to_string())
            while len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)


class DiskSummaryCache:
    """One small file per summary, named by the hash of its key; safe to share between processes."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)

    def get(self, key: SummaryCacheKey) -> StructuredSummary | None:
        try:
            data = json.loads(self._path(key).read_text("utf-8"))
            if data["key"] != key.to_string():
                return None
            summary = StructuredSummary.from_dict(data["summary"])
            summary.render_as_message()  # a value of the wrong kind shows when it is written out
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None
        return summary

    def put(self, key: SummaryCacheKey, summary: StructuredSummary) -> None:
        # ASCII only: half of a character, as a tool's output may hold it, has no other form in a file.
        text = json.dumps({"key": key.to_string(), "summary": summary.to_dict()})
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Written aside and renamed, so that a reader never sees half a file.
            handle, name = tempfile.mkstemp(dir=self._folder, suffix=".part")
        except OSError:
            return
        try:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(text)
            Path(name).replace(self._path(key))
        except OSError:
            Path(name).unlink(missing_ok=True)

    def _path(self, key: SummaryCacheKey) -> Path:
        return self._folder / f"{hashlib.sha256(key.to_string().encode()).hexdigest()}.json"


class TieredSummaryCache:
    """Memory first, then disk; what is found further down is kept further up."""

    def __init__(self, *caches: SummaryCache) -> None:
        self._caches = caches

    def get(self, key: SummaryCacheKey) -> StructuredSummary | None:
        for index, cache in enumerate(self._caches):
            summary = cache.get(key)
            if summary is not None:
                for nearer in self._caches[:index]:
                    nearer.put(key, summary)
                return summary
        return None

    def put(self, key: SummaryCacheKey, summary: StructuredSummary) -> None:
        for cache in self._caches:
            cache.put(key, summary)
