"""The stored form of a span's payload and data: JSON, compressed with zstd if that makes it smaller.

The first byte is the format, so that other ones can be added. Compression happens where a body is decoded, because
Postgres needs longer to store larger rows.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import zstandard
from compact.events import EVENT_PREFIX

from ingest import metrics
from ingest.decoding.lenient_json import sanitize_encoded
from ingest.storage import dictionaries
from ingest.storage.dictionaries import MissingDictionary

logger = logging.getLogger("ariadne.ingest")

# The key of the message that replaces a payload that cannot be read.
UNREADABLE = "unreadable"

_JSON, _ZSTD = b"\x01", b"\x02"
# Compression saves nothing below this size.
_MIN_BYTES = 40
# Level 3 needs a quarter more time and saves 2 % of a payload of 3 kB, but 7 % of a summary of 100 kB. Level 9 saves
# another 9 % of the summary for a millisecond, which only compaction events are rare enough for.
_LEVEL, _LEVEL_OF_LARGE, _LEVEL_OF_LARGE_EVENTS = 1, 3, 9
_LARGE_BYTES = 16_000
# Far above the largest body that the server accepts. Damaged bytes may announce any size.
_MAX_BYTES = 1 << 28
_ENCODED_NUL = b"\\u0000"
_decode_values = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class UnreadablePayload(ValueError):
    """Stored bytes that are damaged, or of a format that this version does not know."""


class _Codecs(threading.local):
    """Contexts of zstd, which threads cannot share."""

    def __init__(self) -> None:
        dictionary = dictionaries.load(dictionaries.CURRENT)
        # With the dictionary, properties are a quarter of their size. Texts would be 6 to 14 % larger than without.
        self.compress_data = zstandard.ZstdCompressor(level=_LEVEL, dict_data=dictionary).compress
        self.compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        self.compress_large = zstandard.ZstdCompressor(level=_LEVEL_OF_LARGE).compress
        self.compress_large_event = zstandard.ZstdCompressor(level=_LEVEL_OF_LARGE_EVENTS).compress
        # By the number of their dictionary. Zero is none.
        self.decompressors = {0: zstandard.ZstdDecompressor()}

    def decompress(self, frame: memoryview) -> bytes:
        number = zstandard.get_frame_parameters(frame).dict_id
        if number not in self.decompressors:
            self.decompressors[number] = zstandard.ZstdDecompressor(dict_data=dictionaries.load(number))
        return self.decompressors[number].decompress(frame, allow_extra_data=False)


_codecs = _Codecs()


def pack(encoded: bytes, kind: str = "") -> bytes:
    """Return the stored form of the payload of a span of a kind, given as JSON."""
    is_event = kind.startswith(EVENT_PREFIX)
    return _pack(encoded, _codecs.compress, _codecs.compress_large_event if is_event else _codecs.compress_large)


def pack_data(encoded: bytes) -> bytes:
    """Return the stored form of a span's data, given as JSON."""
    return _pack(encoded, _codecs.compress_data, _codecs.compress_large)


def _pack(encoded: bytes, compress: Callable[[bytes], bytes], compress_large: Callable[[bytes], bytes]) -> bytes:
    # Neither the search index nor other text columns can store this character.
    if _ENCODED_NUL in encoded:
        encoded = sanitize_encoded(encoded)
    if len(encoded) >= _MIN_BYTES:
        compressed = compress(encoded) if len(encoded) < _LARGE_BYTES else compress_large(encoded)
        if len(compressed) < len(encoded):
            return _ZSTD + compressed
    return _JSON + encoded


def unpack(stored: bytes) -> bytes:
    """Return the JSON of a stored payload, or raise `UnreadablePayload`."""
    if stored[:1] == _JSON:
        return stored[1:]
    if stored[:1] != _ZSTD:
        raise UnreadablePayload(f"Unknown format {stored[:1].hex() or 'of zero bytes'}.")
    body = memoryview(stored)[1:]
    try:
        if size_of(stored) > _MAX_BYTES:
            raise UnreadablePayload(f"More than {_MAX_BYTES:,} bytes.")
        return _codecs.decompress(body)
    except MissingDictionary as error:
        raise UnreadablePayload(str(error)) from None
    except zstandard.ZstdError as error:
        raise UnreadablePayload(f"Damaged: {error}.") from None


def size_of(stored: bytes) -> int:
    """Return the bytes of a stored payload after decompression."""
    if stored[:1] == _JSON:
        return len(stored) - 1
    try:
        return zstandard.frame_content_size(memoryview(stored)[1:])
    except zstandard.ZstdError as error:
        raise UnreadablePayload(f"Damaged: {error}.") from None


def decode(stored: bytes | None) -> Any:
    """Return a stored payload. One that cannot be read becomes a message that says so, and is logged."""
    if stored is None:
        return None
    try:
        return msgspec.json.decode(unpack(stored))
    except (UnreadablePayload, msgspec.DecodeError, UnicodeDecodeError) as error:
        metrics.payloads_unreadable.inc()
        logger.error("payload_unreadable bytes=%d error=%s", len(stored), error)
        return {UNREADABLE: f"This payload is stored with {len(stored):,} bytes that cannot be read. {error}"}


def decode_data(stored: bytes | None) -> dict[str, Any]:
    """Return the stored data of a span. Data that cannot be read is a message under the key `UNREADABLE`."""
    data = decode(stored)
    return data if isinstance(data, dict) else {}


def decode_fields(stored: bytes | None, names: Iterable[str]) -> dict[str, Any]:
    """Return some fields of stored data, without those that are null. Much faster if the others are large."""
    try:
        fields = {} if stored is None else _decode_values(unpack(stored))
    except (UnreadablePayload, msgspec.DecodeError, UnicodeDecodeError):
        return decode_data(stored)
    values = {name: msgspec.json.decode(fields[name]) for name in names if name in fields}
    return {name: value for name, value in values.items() if value is not None}


def unreadable_message(payload: Any) -> str:
    """Return the message of a payload that could not be read, or an empty text."""
    message = payload.get(UNREADABLE) if isinstance(payload, dict) and len(payload) == 1 else None
    return message if isinstance(message, str) else ""


def decode_up_to(stored: bytes | None, max_bytes: int) -> Any:
    """Return a stored payload, or None if it has more than `max_bytes`."""
    try:
        is_large = stored is not None and size_of(stored) > max_bytes
    except UnreadablePayload:
        is_large = False
    return None if is_large else decode(stored)
