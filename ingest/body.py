"""Read a request's body, inflated, within a size and a time.

Limits hold while reading, on what arrives and on what it inflates to: a length in a header is a claim.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import zstandard

from ingest.errors import Malformed, TooLarge, TooSlow, WrongType

Receive = Callable[[], Awaitable[dict[str, Any]]]
_STEP = 1024 * 1024
_PACKED_STEP = 64 * 1024
# Each costs as much as a small request; whoever joins files that were packed apart has some dozens.
_MAX_MEMBERS = 1_000
# From here on inflating, a thousandfold at most, could hold up every other request of the process.
_LARGE_PACKED_BYTES = 16 * 1024


class Disconnected(Exception):
    """The sender went away."""


async def read(receive: Receive, *, declared: str, encoding: str, max_bytes: int, timeout_s: float) -> bytes:
    """The body, inflated, of at most `max_bytes`."""
    if declared.isdigit() and int(declared) > max_bytes:
        raise TooLarge(f"the body has {int(declared):,} bytes; at most {max_bytes:,} are taken")
    try:
        async with asyncio.timeout(timeout_s):
            body = await _read(receive, max_bytes)
    except TimeoutError:
        raise TooSlow(f"the body did not arrive within {timeout_s:.0f} seconds") from None
    if len(body) > _LARGE_PACKED_BYTES and encoding:
        return await asyncio.to_thread(inflate, body, encoding, max_bytes)
    return inflate(body, encoding, max_bytes)


async def _read(receive: Receive, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        part = message.get("body", b"")
        size += len(part)
        if size > max_bytes:
            raise TooLarge(f"the body has more than {max_bytes:,} bytes")
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def inflate(body: bytes, encoding: str, max_bytes: int) -> bytes:
    encoding = encoding.strip().lower()
    if encoding in {"", "identity"}:
        return body
    try:
        if encoding in {"gzip", "x-gzip"}:
            return _gunzip(body, max_bytes)
        if encoding == "deflate":
            return _inflate(body, max_bytes)
        if encoding == "zstd":
            return _unzstd(body, max_bytes)
    except (zlib.error, zstandard.ZstdError, EOFError):
        raise Malformed(f"the body is not valid {encoding}") from None
    raise WrongType(f"Content-Encoding {encoding[:40]!r} is not known: use gzip or zstd")


def _gunzip(body: bytes, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    left = max_bytes
    at = 0
    # A gzip file may have several members, one after the other.
    while at < len(body):
        if len(parts) == _MAX_MEMBERS:
            raise Malformed(f"the body has more than {_MAX_MEMBERS:,} gzip members")
        inflater = zlib.decompressobj(wbits=31)
        inflated: list[bytes] = []
        # Step by step: what is left over after a member's end is copied, and must not be all that follows.
        while not inflater.eof and at < len(body):
            step = body[at : at + _PACKED_STEP]
            inflated.append(_bounded(inflater, step, left))
            left -= len(inflated[-1])
            at += len(step) - len(inflater.unused_data)
        if not inflater.eof:
            raise EOFError
        parts.append(b"".join(inflated))
    return b"".join(parts)


def _inflate(body: bytes, max_bytes: int) -> bytes:
    inflater = zlib.decompressobj()
    found = _bounded(inflater, body, max_bytes)
    if not inflater.eof:
        raise EOFError
    return found


def _bounded(inflater: Any, body: bytes, max_bytes: int) -> bytes:
    found = inflater.decompress(body, max_bytes + 1)
    if len(found) > max_bytes:
        raise TooLarge(f"the body inflates to more than {max_bytes:,} bytes")
    return bytes(found)


def _unzstd(body: bytes, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    with zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(body, read_across_frames=True) as reader:
        while part := reader.read(_STEP):
            size += len(part)
            if size > max_bytes:
                raise TooLarge(f"the body inflates to more than {max_bytes:,} bytes")
            parts.append(part)
    if not parts and body:
        raise EOFError
    return b"".join(parts)
