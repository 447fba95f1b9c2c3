"""Export a transcript: redact it with the current rules, measure it, and stream it.

The export is first written to an unnamed temporary file. This way its length and digest are known before the first
byte is sent, ranges can be served, and memory use does not depend on the length of the transcript.
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

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse

from ingest.archive import transcript_format, transcripts
from ingest.archive.hash_chain import canonical
from ingest.models import Transcript
from viewer.project_redactor import project_redactor

_CHUNK_BYTES = 64 * 1024
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


@dataclass(frozen=True, slots=True)
class Export:
    """A file to send, with its size and digest."""

    file: IO[bytes]
    size: int
    sha256: str
    redactions: dict[str, int]  # in addition to those made on arrival


def export(transcript: Transcript) -> Export:
    """Write the redacted transcript to a temporary file."""
    redact, counts = project_redactor(transcript.project_id).tree, Counter[str]()

    def lines() -> Iterator[bytes]:
        for archived in transcripts.lines(transcript):
            message, redactions = redact(json.loads(archived))
            counts.update(redactions)
            yield (_encode(message) if redactions else archived) + b"\n"

    return replace(spool(lines()), redactions=dict(sorted(counts.items())))


def spool(chunks: Iterable[bytes]) -> Export:
    """Write chunks to a temporary file and measure them."""
    digest, size = hashlib.sha256(), 0
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the response
    for chunk in chunks:
        digest.update(chunk)
        size += len(chunk)
        file.write(chunk)
    return Export(file, size, digest.hexdigest(), {})


def _encode(message: dict[str, Any]) -> bytes:
    return transcript_format.archived_line(message.pop("id", None), canonical(message))


def file_name(transcript: Transcript, extension: str) -> str:
    """Return a readable file name that is safe for any session id: no path, no header, no hidden file."""
    session = re.sub(r"[^\w.-]+", "_", transcript.session_id).strip("._")[:80] or "session"
    return f"{session}-transcript-pre-compact-{transcript.step:03d}{extension}"


def _ascii_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).lstrip("._-")


def respond(request: HttpRequest, export: Export, *, name: str, content_type: str) -> HttpResponseBase:
    """Send the file or the requested range. A request for several ranges gets the whole file, as HTTP allows."""
    etag = f'"{export.sha256}"'
    headers = {
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, no-store",
        "Content-Disposition": f"attachment; filename=\"{_ascii_name(name)}\"; filename*=UTF-8''{quote(name)}",
        "Content-Type": content_type,
        "ETag": etag,
        "Repr-Digest": f"sha-256=:{b64encode(bytes.fromhex(export.sha256)).decode()}:",
        "X-Redactions": ", ".join(f"{rule}={count}" for rule, count in export.redactions.items()) or "none",
    }
    start, end, status = 0, export.size, 200
    byte_range = _parse_range(request, etag, export.size)
    if byte_range is not None:
        start, end = byte_range
        if start >= end:
            export.file.close()
            return HttpResponse(status=416, headers={**headers, "Content-Range": f"bytes */{export.size}"})
        status = 206
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{export.size}"
    headers["Content-Length"] = str(end - start)
    if request.method == "HEAD":
        export.file.close()
        return HttpResponse(status=status, headers=headers)
    chunks = _read_chunks(export.file, start, end)
    body = _read_async(chunks) if isinstance(request, ASGIRequest) else chunks
    response = StreamingHttpResponse(body, status=status, headers=headers)
    # If the client disconnects before the first chunk, the generator that would close the file never starts.
    response._resource_closers.append(export.file.close)  # type: ignore[attr-defined]
    return response


def _parse_range(request: HttpRequest, etag: str, size: int) -> tuple[int, int] | None:
    """Return the start and end of the requested range, or None for the whole file."""
    match = _RANGE.fullmatch(request.headers.get("Range", "").strip())
    if match is None or request.headers.get("If-Range", etag) != etag:
        return None
    first, last = match.groups()
    if first:
        return int(first), min(int(last) + 1, size) if last else size
    return (max(0, size - int(last)), size) if last else None


def _read_chunks(file: IO[bytes], start: int, end: int) -> Iterator[bytes]:
    with file:
        file.seek(start)
        while start < end:
            chunk = file.read(min(_CHUNK_BYTES, end - start))
            start += len(chunk)
            yield chunk


async def _read_async(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    while (chunk := await asyncio.to_thread(next, chunks, b"")) != b"":
        yield chunk
