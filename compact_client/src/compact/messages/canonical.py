"""Canonical JSON and its hash, by which messages are recognized."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

PIECE_CHARS: Final = 1 << 19
"""Longer texts, such as pictures, are processed in pieces of this size. A call over all of a text would stop the other
threads, also that of an event loop, for its whole time."""

# `json.dumps` with options creates an encoder for every call, which is slow for thousands of messages.
_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


def canonical_json(value: Any) -> bytes:
    """Return JSON with sorted keys and no spaces as valid UTF-8. A lone surrogate becomes U+FFFD."""
    text = _CANONICAL.encode(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def json_hash(value: Any) -> str:
    """Return the SHA-256 of canonical JSON.

    A long text, such as a picture, is encoded in pieces. Encoding it at once would stop all threads for that time.
    """
    if not _has_long_text(value):
        return hashlib.sha256(canonical_json(value)).hexdigest()
    digest = hashlib.sha256()
    for piece in _json_pieces(value):
        digest.update(piece)
    return digest.hexdigest()


def _has_long_text(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) > PIECE_CHARS
    if isinstance(value, dict):
        return any(map(_has_long_text, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_long_text, value))


def _json_pieces(value: Any) -> Iterator[bytes]:
    """Yield the canonical JSON of a value in pieces."""
    if isinstance(value, dict):
        separator = b"{"
        for key, item in sorted(value.items()):
            yield separator + canonical_json({key: None})[1 : -len("null}")]
            yield from _json_pieces(item)
            separator = b","
        yield b"}" if value else b"{}"
    elif isinstance(value, list | tuple):
        separator = b"["
        for item in value:
            yield separator
            yield from _json_pieces(item)
            separator = b","
        yield b"]" if value else b"[]"
    elif isinstance(value, str) and len(value) > PIECE_CHARS:
        yield b'"'
        for start, end in _piece_bounds(value):
            yield canonical_json(value[start:end])[1:-1]
        yield b'"'
    else:
        yield canonical_json(value)


def _piece_bounds(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(text):
        end = start + PIECE_CHARS
        # A pair of surrogates is one character.
        while "\ud800" <= text[end - 1 : end] <= "\udbff":
            end += 1
        yield start, end
        start = end


def content_hash(value: Any) -> str:
    """Return the SHA-256 of a message's canonical JSON, without its `id` and `hash` keys."""
    if isinstance(value, Mapping) and ("id" in value or "hash" in value):
        value = {key: item for key, item in value.items() if key not in ("id", "hash")}
    return json_hash(value)
