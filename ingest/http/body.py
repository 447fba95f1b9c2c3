"""Read a request's body, inflated, within a size and a time.

Limits hold while reading, on what arrives and on what it inflates to: a length in a header is a claim.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import zstandard

from ingest.http.errors import Malformed, TooLarge, TooSlow, WrongType
from ingest.http.limits import aside

Receive = Callable[[], Awaitable[dict[str, Any]]]
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
        return await aside(inflate, body, encoding, max_bytes)
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
    if encoding not in _MEMBERS:
        raise WrongType(f"Content-Encoding {encoding[:40]!r} is not known: use gzip or zstd")
    try:
        return _unpacked(body, encoding, max_bytes)
    except (zlib.error, zstandard.ZstdError, EOFError):
        raise Malformed(f"the body is not valid {encoding}") from None


def _unpacked(body: bytes, encoding: str, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    left = max_bytes
    at = members = 0
    # A packed file may have several members, one after the other; the last must be whole, like all the others.
    while at < len(body):
        members += 1
        if members > _MAX_MEMBERS:
            raise Malformed(f"the body has more than {_MAX_MEMBERS:,} {encoding} members")
        member = _MEMBERS[encoding]()
        # Step by step: what is left over after a member's end is copied, and must not be all that follows.
        while not member.packed.eof and at < len(body):
            step = body[at : at + member.step_bytes]
            part = member.inflate(step, left + 1)
            if len(part) > left:
                raise TooLarge(f"the body inflates to more than {max_bytes:,} bytes")
            parts.append(part)
            left -= len(part)
            at += len(step) - len(member.packed.unused_data)
        if not member.packed.eof:
            raise EOFError
    return b"".join(parts)


class _Zlib:
    """A gzip member, or a zlib stream."""

    step_bytes = 64 * 1024

    def __init__(self, wbits: int) -> None:
        self.packed = zlib.decompressobj(wbits)

    def inflate(self, step: bytes, max_bytes: int) -> bytes:
        return self.packed.decompress(step, max_bytes)


class _Zstd:
    """A zstd frame."""

    # Its inflater knows no limit: four bytes may stand for 128 kB, so each step is as small as its worst result.
    step_bytes = 1024

    def __init__(self) -> None:
        self.packed = zstandard.ZstdDecompressor(max_window_size=2**27).decompressobj()

    def inflate(self, step: bytes, max_bytes: int) -> bytes:
        return self.packed.decompress(step)


_MEMBERS: dict[str, Callable[[], _Zlib | _Zstd]] = {
    "gzip": lambda: _Zlib(31),
    "x-gzip": lambda: _Zlib(31),
    "deflate": lambda: _Zlib(15),
    "zstd": _Zstd,
}
