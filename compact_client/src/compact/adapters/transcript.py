"""A transcript as bytes: one canonical JSON line a message, named by their SHA-256.

Pure: the same messages give the same bytes, wherever they are archived, so that copies can be compared by hash alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from compact.messages import Message, canonical_json

_STEP = re.compile(r"transcript-pre-compact-(\d{3,})\.jsonl")


@dataclass(frozen=True, slots=True)
class Transcript:
    """The bytes to archive, and what is said about them in `compact.archival`."""

    body: bytes
    sha256: str
    message_count: int


def transcript_of(messages: Sequence[Message]) -> Transcript:
    """One line a message, with the id it has in the log; the messages must be redacted already."""
    body = b"".join(canonical_json(line_of(message)) + b"\n" for message in messages)
    return Transcript(body, hashlib.sha256(body).hexdigest(), len(messages))


def line_of(message: Message) -> dict[str, Any]:
    line = message.to_dict()
    if message.id is not None:
        line["id"] = message.id
    return line


def summary_body(session_id: str, summary: Message, step: int) -> bytes:
    """A summary as readable JSON."""
    document = {"session_id": session_id, "step": step, "summary": line_of(summary)}
    return (
        json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False, default=str).encode("utf-8", "replace")
        + b"\n"
    )


def folder_of(session_id: str) -> str:
    """A session id as one safe name: `../etc` stays inside the archive, and two ids never share a folder."""
    name = quote(session_id, safe="-_ ", errors="surrogatepass")
    # quote leaves the dot alone, and a folder must not be called `..` nor be hidden.
    name = name if not name.startswith(".") else f"%2E{name[1:]}"
    if not name or len(name) > 200:
        digest = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()
        name = f"{name[:160]}%{digest[:16]}"
    return name


def transcript_name(step: int) -> str:
    return f"transcript-pre-compact-{step:03d}.jsonl"


def summary_name(step: int) -> str:
    return f"summary-{step:03d}.json"


def step_of(name: str) -> int | None:
    """The step of a transcript's file name."""
    match = _STEP.fullmatch(name)
    return int(match[1]) if match else None
