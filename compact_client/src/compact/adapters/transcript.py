"""The archive format: canonical JSON lines, file names and hashes.

Pure: the same messages give the same bytes in every archive, so copies can be compared by hash.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from compact.messages import Message, RedactedMessage, canonical_json, text_of
from compact.protocols import ArchivedTranscript
from compact.redaction.view import mask_conversation

# Code that reads a message recursively must not reach Python's limit.
_MAX_DEPTH = 100
_TRANSCRIPT_NAME = re.compile(r"transcript-pre-compact-(\d{3,})\.jsonl")


@dataclass(frozen=True, slots=True)
class Transcript:
    """The bytes to archive, with their hash and the number of messages."""

    body: bytes
    sha256: str
    message_count: int

    @classmethod
    def from_messages(cls, messages: Sequence[Message]) -> Transcript:
        """Encode messages, one line each, with their ids in the log. Messages of no session are redacted first."""
        body = b"".join(canonical_json(_to_line(message)) + b"\n" for message in mask_conversation(messages))
        return cls(body, hashlib.sha256(body).hexdigest(), len(messages))

    def receipt(self, step: int, *, state: str = "stored", **location: str) -> dict[str, Any]:
        """Return the result of `save_transcript`: the location, and the figures that `compact.archival` reports."""
        figures = {"state": state, "step": step, "sha256": self.sha256, "message_count": self.message_count}
        return {**location, **figures}


def encode_summary(session_id: str, summary: Message, step: int) -> bytes:
    """Return a summary as indented JSON."""
    (redacted,) = mask_conversation([summary])
    document = {"session_id": session_id, "step": step, "summary": _to_line(redacted)}
    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False, default=str)
    return text.encode("utf-8", "replace") + b"\n"


def decode_transcript(step: int, body: bytes, summary: bytes | None, stored_at: float | None) -> ArchivedTranscript:
    """Return what can be read of an archived transcript. Lines that `Transcript` did not write are left out."""
    messages, damage = [], None
    for number, line in enumerate(body.split(b"\n"), 1):
        try:
            messages += [_decode_line(line)] if line.strip() else []
        except (ValueError, RecursionError) as error:
            damage = f"line {number}: {error}"
    text = None
    try:
        text = text_of(json.loads(summary)["summary"]["content"]) if summary else None
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        damage = f"its summary: {error}"
    return ArchivedTranscript(step, messages, text, _iso(stored_at) if stored_at is not None else None, damage)


def _decode_line(line: bytes) -> dict[str, Any]:
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("not an object")
    if _is_deeper(message, _MAX_DEPTH):
        raise ValueError(f"nested in more than {_MAX_DEPTH} levels")
    return message


def _is_deeper(value: Any, depth: int) -> bool:
    """True if a JSON value has more levels than this."""
    level = [value]
    for _ in range(depth):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True


def _iso(timestamp: float) -> str:
    return datetime.fromtimestamp(timestamp, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def folder_name(session_id: str) -> str:
    """Return a safe folder name. It cannot leave the archive or be hidden, and no two sessions share one."""
    name = quote(session_id, safe="-_ ", errors="surrogatepass")
    # quote() does not escape the dot, and ".." must not become a folder name.
    name = name if not name.startswith(".") else f"%2E{name[1:]}"
    if not name or len(name) > 200:
        digest = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()
        name = f"{name[:160]}%{digest[:16]}"
    return name


def transcript_name(step: int) -> str:
    """Return the file name of a transcript."""
    return f"transcript-pre-compact-{step:03d}.jsonl"


def summary_name(step: int) -> str:
    """Return the file name of a summary."""
    return f"summary-{step:03d}.json"


def parse_step(name: str) -> int | None:
    """Return the step in the file name of a transcript, or None for other files."""
    match = _TRANSCRIPT_NAME.fullmatch(name)
    return int(match[1]) if match else None


def _to_line(message: RedactedMessage) -> dict[str, Any]:
    line = message.to_dict()
    if message.id is not None:
        line["id"] = message.id
    return line
