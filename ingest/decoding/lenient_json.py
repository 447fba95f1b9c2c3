"""Parse JSON that strict parsers or Postgres reject, and sanitize it.

Agents send lone surrogates, NUL characters, NaN, invalid UTF-8 and enormous numbers. Python's own parser accepts all of
these. They are replaced by U+FFFD or by their text, so that one odd value does not cost the event. Every function here
takes time linear in its input.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import msgspec

# Browsers and other consumers of the API fail on JSON that is nested deeper.
MAX_DEPTH = 200
STRICT_ERRORS = (msgspec.MsgspecError, RecursionError, UnicodeError)
# Lists and objects around an event add some levels. An event that is too deep is still too deep after the truncation.
_PARSE_MAX_DEPTH = MAX_DEPTH + 20
_MAX_INT_DIGITS = 40

_TRUNCATED = "Input data was truncated"
_SHORT_BYTES = 40
# Control characters, NaN and Infinity, escapes, and digits of numbers that are too large.
_LENIENT_BYTES = re.compile(rb"[\x00-\x1fNI\\]|[0-9]{18}")
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class TruncatedJson(ValueError):
    """JSON that ends in the middle of a value."""


def is_plain(raw: bytes) -> bool:
    """True if `raw` is UTF-8 without NUL characters, which are the values that JSON allows and Postgres does not."""
    # Searching for one byte is much faster, and most bodies do not contain it.
    if b"\\" in raw and b"\\u0000" in raw:
        return False
    if raw.isascii():
        return True
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def parse(raw: bytes) -> Any:
    """Parse and sanitize JSON, and truncate values that are nested too deeply.

    Raise `ValueError` if `raw` is not JSON.
    """
    if is_plain(raw):
        try:
            return _decode(raw)
        except msgspec.DecodeError as error:
            # No parser accepts half a value, so there is no need to try the slow one.
            if str(error) == _TRUNCATED:
                raise TruncatedJson from None
            # The slow one only helps with these bytes. It takes long to fail, which short lines make expensive.
            if len(raw) < _SHORT_BYTES and not _LENIENT_BYTES.search(raw):
                raise ValueError(str(error)) from None
        except STRICT_ERRORS:
            pass
    # Fewer bytes than levels cannot nest too deeply.
    shallow = raw if len(raw) <= _PARSE_MAX_DEPTH else truncate_depth(raw, _PARSE_MAX_DEPTH)
    text = shallow.decode("utf-8", "replace")
    return sanitize(_lenient_decoder.decode(text))


def _parse_int(digits: str) -> int | str:
    # Converting thousands of digits is slow, and no consumer can represent the number.
    return int(digits) if len(digits) <= _MAX_INT_DIGITS else digits


_lenient_decoder = json.JSONDecoder(parse_int=_parse_int, strict=False)


def sanitize(value: Any) -> Any:
    """Return a copy of a JSON value without NUL characters, lone surrogates, NaN and infinity."""
    if isinstance(value, str):
        return _sanitize_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {_sanitize_text(key): sanitize(item) for key, item in value.items()}
    if isinstance(value, list):
        return [sanitize(item) for item in value]
    return value


def _sanitize_text(text: str) -> str:
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def sanitize_encoded(raw: bytes) -> bytes:
    """Return encoded JSON after a round trip through `parse`."""
    return _encode(parse(raw))


# Each bracket becomes a step of the nesting level: 1 for an opening one, -1 (255) for a closing one.
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[{]}"))
_OTHERS_TO_ZERO = bytes(code if code in b"[{]}" else 0 for code in range(256))


def _split_at_quotes(raw: bytes) -> list[bytes]:
    """Split encoded JSON at the quotes of its strings. Every second part is the text of a string.

    Escaped characters are replaced by spaces, so that positions stay the same. A single step in C for each part is much
    faster than a regular expression, which needs a step in Python for each string and each bracket.
    """
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
    return raw.split(b'"')


def _levels(steps: bytes) -> Iterator[int]:
    """Yield the nesting level after each step."""
    return accumulate(memoryview(steps).cast("b"))


def is_deep(raw: bytes, max_depth: int = MAX_DEPTH) -> bool:
    """True if encoded JSON is nested deeper than `max_depth` levels."""
    if raw.count(b"{") + raw.count(b"[") <= max_depth:
        return False
    brackets = b"".join(_split_at_quotes(raw)[::2]).translate(None, _NOT_BRACKETS)
    return any(map(max_depth.__lt__, _levels(brackets.translate(_STEPS))))


def truncate_depth(raw: bytes, max_depth: int) -> bytes:
    """Return encoded JSON with each list and object below `max_depth` levels replaced by 0."""
    if not is_deep(raw, max_depth):
        return raw
    parts = _split_at_quotes(raw)
    parts[1::2] = [b" " * len(text) for text in parts[1::2]]
    steps = b" ".join(parts).translate(_OTHERS_TO_ZERO).translate(_STEPS)
    # One byte for each byte of `raw`: 1 inside a list or object that is too deep, otherwise 0.
    is_removed = bytes(map(max_depth.__lt__, _levels(steps)))
    kept: list[bytes] = []
    position = 0
    while (start := is_removed.find(1, position)) >= 0:
        kept += (raw[position:start], b"0")
        end = is_removed.find(0, start)
        # The closing bracket is the first byte at a permitted level.
        position = len(raw) if end < 0 else end + 1
    return b"".join((*kept, raw[position:]))
