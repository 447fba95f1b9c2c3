"""A transcript on its way out: redacted once more with today's rules, measured, and sent in pieces.

It is written to an unnamed temporary file first, so that its length and digest are known before the first byte
leaves, part of it can be asked for again, and memory stays flat however long it is.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import tempfile
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import IO, Any
from urllib.parse import quote

from compact.redaction import default_redactor
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse

from ingest.archive import transcript_format, transcripts
from ingest.archive.hash_chain import canonical
from ingest.models import Transcript

_PIECE = 64 * 1024
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


@dataclass(frozen=True, slots=True)
class Export:
    """What will leave: the file, and what is true of it."""

    file: IO[bytes]
    size: int
    sha256: str
    redactions: dict[str, int]  # on top of those made on arrival


def export(transcript: Transcript) -> Export:
    redact, counts = default_redactor().tree, Counter[str]()

    def lines() -> Iterator[bytes]:
        for archived in transcripts.lines(transcript):
            message, found = redact(json.loads(archived))
            counts.update(found)
            yield (_spelled(message) if found else archived) + b"\n"

    return replace(spool(lines()), redactions=dict(sorted(counts.items())))


def spool(pieces: Iterable[bytes]) -> Export:
    """Anything else that leaves as a file, measured the same way."""
    digest, size = hashlib.sha256(), 0
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by whoever sends it
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
        file.write(piece)
    return Export(file, size, digest.hexdigest(), {})


def _spelled(message: dict[str, Any]) -> bytes:
    return transcript_format.archived_line(message.pop("id", None), canonical(message))


def file_name(transcript: Transcript, ending: str) -> str:
    """Readable, and harmless whatever an agent called its session: no path, no header, no hidden file."""
    session = re.sub(r"[^\w.-]+", "_", transcript.session_id).strip("._")[:80] or "session"
    return f"{session}-transcript-pre-compact-{transcript.step:03d}{ending}"


def _plain(name: str) -> str:
    """For clients that read only ASCII."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).lstrip("._-")


def respond(request: HttpRequest, export: Export, *, name: str, content_type: str) -> HttpResponseBase:
    """The whole, or the one range asked for. Several ranges at once are answered with the whole, as HTTP allows."""
    etag = f'"{export.sha256}"'
    headers = {
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, no-store",
        "Content-Disposition": f"attachment; filename=\"{_plain(name)}\"; filename*=UTF-8''{quote(name)}",
        "Content-Type": content_type,
        "ETag": etag,
        "Repr-Digest": f"sha-256=:{b64encode(bytes.fromhex(export.sha256)).decode()}:",
        "X-Redactions": ", ".join(f"{rule}={count}" for rule, count in export.redactions.items()) or "none",
    }
    start, end, status = 0, export.size, 200
    asked = request.headers.get("Range", "")
    if asked and request.headers.get("If-Range", etag) == etag and (match := _RANGE.fullmatch(asked.strip())):
        first, last = match.groups()
        if first:
            start, end = int(first), min(int(last) + 1, export.size) if last else export.size
        elif last:
            start = max(0, export.size - int(last))
        if start >= end:
            export.file.close()
            return HttpResponse(status=416, headers={**headers, "Content-Range": f"bytes */{export.size}"})
        if first or last:
            status = 206
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{export.size}"
    headers["Content-Length"] = str(end - start)
    if request.method == "HEAD":
        export.file.close()
        return HttpResponse(status=status, headers=headers)
    pieces = _pieces(export.file, start, end)
    body = _awaited(pieces) if isinstance(request, ASGIRequest) else pieces
    response = StreamingHttpResponse(body, status=status, headers=headers)
    # A reader who left before the first piece never starts the generator, whose end would close the file.
    response._resource_closers.append(export.file.close)  # type: ignore[attr-defined]
    return response


def _pieces(file: IO[bytes], start: int, end: int) -> Iterator[bytes]:
    with file:
        file.seek(start)
        while start < end:
            piece = file.read(min(_PIECE, end - start))
            start += len(piece)
            yield piece


async def _awaited(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    while (piece := await asyncio.to_thread(next, pieces, b"")) != b"":
        yield piece
