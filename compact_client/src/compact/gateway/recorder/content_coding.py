"""Undo the content coding of a body while its bytes arrive."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

# A slice of this size becomes at most about a thousand times as large, so that the limit is noticed in time.
_SLICE_BYTES = 16 * 1024


class UnreadableBody(ValueError):
    """The body cannot be decoded: an unknown coding or damaged bytes."""


class BodyTooLarge(UnreadableBody):
    """The body has more content than the limit."""


class BodyDecoder:
    """Decodes a body with the codings of its `content-encoding` header. `max_bytes` limits what comes out."""

    def __init__(self, encoding: str, *, max_bytes: int) -> None:
        names = [name.strip().lower() for name in encoding.split(",") if name.strip()]
        self._steps = [_decoder(name) for name in reversed(names) if name != "identity"]
        self._left = max_bytes

    def feed(self, data: bytes) -> bytes:
        """Return the content of the next bytes."""
        if not self._steps:
            return self._count(data)
        slices = (data[start : start + _SLICE_BYTES] for start in range(0, len(data), _SLICE_BYTES))
        return b"".join(self._count(self._decode(part)) for part in slices)

    def _decode(self, data: bytes) -> bytes:
        try:
            for step in self._steps:
                data = step(data)
        except Exception as error:  # Each library has its own errors for damaged data.
            raise UnreadableBody(f"The body is not valid: {error}") from error
        return data

    def _count(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise BodyTooLarge("The body is too large.")
        return data


def _decoder(name: str) -> Callable[[bytes], bytes]:
    if name in ("gzip", "x-gzip"):
        return zlib.decompressobj(wbits=31).decompress
    if name == "deflate":
        return _Deflate().feed
    if name == "br":
        return _optional("brotli").Decompressor().process  # type: ignore[no-any-return]
    if name == "zstd":
        return _optional("zstandard").ZstdDecompressor().decompressobj().decompress  # type: ignore[no-any-return]
    raise UnreadableBody(f"The content coding {name!r} is not known.")


class _Deflate:
    """Decodes `deflate`, which is zlib by the standard, and raw deflate for some servers."""

    def __init__(self) -> None:
        self._decode: Any = None

    def feed(self, data: bytes) -> bytes:
        if self._decode is None and data:
            is_zlib = data[0] & 0x0F == 8 and (len(data) < 2 or (data[0] << 8 | data[1]) % 31 == 0)
            self._decode = zlib.decompressobj(wbits=15 if is_zlib else -15).decompress
        return self._decode(data) if self._decode is not None else b""


def _optional(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError as error:
        raise UnreadableBody(f"{name} is not installed. The extra `gateway` has it.") from error
