"""Cache summaries of model calls under a key of everything that affects them.

A hit returns exactly what was stored. A cache that cannot be read or written counts as a miss and never raises.
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
    """Everything that a summary depends on."""

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
        """Return the key of a span. It covers message ids, because a summary refers to them, but no timestamps."""
        digest = hashlib.sha256()
        for message in messages:
            digest.update(message_bytes(message))
        return cls(digest.hexdigest(), STRUCTURED_SUMMARY_SCHEMA_VERSION, policy_version, model_id, prompt_version)


def message_bytes(message: Message) -> bytes:
    """Return the parts of a message that affect a summary, as bytes to hash."""
    parts = {
        "role": message.role,
        "text": message.text,
        "calls": [[call.name, call.arguments] for call in message.tool_calls],
        "id": message.id,
    }
    return canonical_json(parts) + b"\n"


def policy_version(**settings: object) -> str:
    """Return a short hash of the settings that affect a summary."""
    return hashlib.sha256(canonical_json(settings)).hexdigest()[:12]


class SummaryCache(Protocol):
    """Stores summaries between calls, processes or machines."""

    def get(self, key: SummaryCacheKey) -> StructuredSummary | None: ...

    def put(self, key: SummaryCacheKey, summary: StructuredSummary) -> None: ...


class MemorySummaryCache:
    """Keeps the most recently used summaries of this process."""

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
    """Keeps one small file per summary, named by the hash of its key. Several processes can share the folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)

    def get(self, key: SummaryCacheKey) -> StructuredSummary | None:
        try:
            data = json.loads(self._path(key).read_text("utf-8"))
            if data["key"] != key.to_string():
                return None
            summary = StructuredSummary.from_dict(data["summary"])
            summary.render_as_message()  # fails if a damaged file has a value of the wrong type
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None
        return summary

    def put(self, key: SummaryCacheKey, summary: StructuredSummary) -> None:
        # ASCII only, because a lone surrogate from tool output cannot be encoded as UTF-8.
        text = json.dumps({"key": key.to_string(), "summary": summary.to_dict()})
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Write to a temporary file and rename it, so that readers never see a partial file.
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
    """Checks several caches in order, for example memory before disk, and copies hits to the faster ones."""

    def __init__(self, *caches: SummaryCache) -> None:
        self._caches = caches

    def get(self, key: SummaryCacheKey) -> StructuredSummary | None:
        for index, cache in enumerate(self._caches):
            summary = cache.get(key)
            if summary is not None:
                for faster in self._caches[:index]:
                    faster.put(key, summary)
                return summary
        return None

    def put(self, key: SummaryCacheKey, summary: StructuredSummary) -> None:
        for cache in self._caches:
            cache.put(key, summary)
