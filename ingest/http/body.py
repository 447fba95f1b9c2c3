"""Read and decompress request bodies within limits of size and time.

The limits are enforced while reading, on the compressed and the decompressed bytes. Content-Length is only a claim.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import zstandard

from ingest.errors import Malformed, TooLarge, TooSlow, UnsupportedType
from ingest.http.limits import run_in_thread

Receive = Callable[[], Awaitable[dict[str, Any]]]
# Each member costs as much as a small request. Concatenated files have some dozens.
_MAX_MEMBERS = 1_000
# Data can expand a thousandfold. Bodies that are larger than this, before or after decompression, would block the event
# loop for too long.
_MAX_INLINE_BYTES, _MAX_INLINE_RESULT_BYTES = 16 * 1024, 256 * 1024


class ClientDisconnected(Exception):
    """The client closed the connection before the whole body arrived."""


async def read_body(receive: Receive, *, content_length: str, encoding: str, max_bytes: int, timeout_s: float) -> bytes:
    """Return the decompressed body, which has at most `max_bytes` bytes."""
    if content_length.isdigit() and int(content_length) > max_bytes:
        raise TooLarge(f"The body has {int(content_length):,} bytes. The limit is {max_bytes:,} bytes.")
    try:
        async with asyncio.timeout(timeout_s):
            body = await _receive_body(receive, max_bytes)
    except TimeoutError:
        raise TooSlow(f"The body did not arrive within {timeout_s:.0f} seconds.") from None
    if not encoding:
        return body
    if len(body) <= _MAX_INLINE_BYTES:
        with contextlib.suppress(TooLarge):
            return decompress(body, encoding, min(max_bytes, _MAX_INLINE_RESULT_BYTES))
    return await run_in_thread(decompress, body, encoding, max_bytes)


async def _receive_body(receive: Receive, max_bytes: int) -> bytes:
    """Return the body. The server passes it in pieces of a megabyte, and joining many of them takes long."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        part = message.get("body", b"")
        size += len(part)
        if size > max_bytes:
            raise TooLarge(f"The body has more than {max_bytes:,} bytes, which is the limit.")
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else await run_in_thread(b"".join, parts)


def decompress(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """Decompress a body that has the given `Content-Encoding`."""
    encoding = encoding.strip().lower()
    if encoding in {"", "identity"}:
        return body
    if encoding not in _DECOMPRESSORS:
        raise UnsupportedType(f"Content-Encoding {encoding[:40]!r} is not supported. Use gzip or zstd.")
    try:
        return _decompress_members(body, encoding, max_bytes)
    except (zlib.error, zstandard.ZstdError, EOFError):
        raise Malformed(f"The body is not valid {encoding}.") from None


def _decompress_members(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """Decompress all members of a body. Compressed files can be concatenated, and each member must be complete."""
    parts: list[bytes] = []
    remaining = max_bytes
    position = members = 0
    while position < len(body):
        members += 1
        if members > _MAX_MEMBERS:
            raise Malformed(f"The body has more than {_MAX_MEMBERS:,} {encoding} members.")
        member = _DECOMPRESSORS[encoding]()
        # The decompressor copies the bytes after the end of a member, so it must not get the whole rest of the body.
        while not member.stream.eof and position < len(body):
            chunk = body[position : position + member.chunk_bytes]
            part = member.decompress(chunk, remaining + 1)
            if len(part) > remaining:
                raise TooLarge(f"The body has more than {max_bytes:,} bytes after decompression, which is the limit.")
            parts.append(part)
            remaining -= len(part)
            position += len(chunk) - len(member.stream.unused_data)
        if not member.stream.eof:
            raise EOFError
    return b"".join(parts)


class _ZlibMember:
    """A gzip member or a zlib stream."""

    chunk_bytes = 64 * 1024

    def __init__(self, wbits: int) -> None:
        self.stream = zlib.decompressobj(wbits)

    def decompress(self, chunk: bytes, max_bytes: int) -> bytes:
        return self.stream.decompress(chunk, max_bytes)


class _ZstdMember:
    """A zstd frame."""

    # The decompressor has no output limit and four bytes can expand to 128 kB, so the input must be limited.
    chunk_bytes = 1024

    def __init__(self) -> None:
        self.stream = zstandard.ZstdDecompressor(max_window_size=2**27).decompressobj()

    def decompress(self, chunk: bytes, max_bytes: int) -> bytes:
        return self.stream.decompress(chunk)


_DECOMPRESSORS: dict[str, Callable[[], _ZlibMember | _ZstdMember]] = {
    "gzip": lambda: _ZlibMember(31),
    "x-gzip": lambda: _ZlibMember(31),
    "deflate": lambda: _ZlibMember(15),
    "zstd": _ZstdMember,
}
