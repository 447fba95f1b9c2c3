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
from typing import Any

import msgspec

# Browsers and other consumers of the API fail on JSON that is nested deeper.
MAX_DEPTH = 200
STRICT_ERRORS = (msgspec.MsgspecError, RecursionError, UnicodeError)
# Lists and objects around an event add some levels. An event that is too deep is still too deep after the truncation.
_PARSE_MAX_DEPTH = MAX_DEPTH + 20
_MAX_INT_DIGITS = 40

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


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
        except STRICT_ERRORS:
            pass
    text = truncate_depth(raw, _PARSE_MAX_DEPTH).decode("utf-8", "replace")
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


# A string ends at its closing quote or at the end of the input. The possessive quantifiers rule out backtracking.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|(?P<open>[\[{])|(?P<close>[\]}])', re.DOTALL)


def _brackets(raw: bytes) -> Iterator[tuple[re.Match[bytes], int]]:
    """Yield each bracket outside strings with the nesting level of the list or object it opens or closes."""
    level = 0
    for token in _TOKEN.finditer(raw):
        if token.lastgroup == "open":
            level += 1
            yield token, level
        elif token.lastgroup == "close":
            yield token, level
            level -= 1


def is_deep(raw: bytes) -> bool:
    """True if encoded JSON is nested deeper than `MAX_DEPTH` levels."""
    if raw.count(b"{") + raw.count(b"[") <= MAX_DEPTH:
        return False
    return any(level > MAX_DEPTH for _bracket, level in _brackets(raw))


def truncate_depth(raw: bytes, max_depth: int) -> bytes:
    """Return encoded JSON with each list and object below `max_depth` levels replaced by 0."""
    if raw.count(b"{") + raw.count(b"[") <= max_depth:
        return raw
    kept: list[bytes] = []
    position = 0
    for bracket, level in _brackets(raw):
        if level != max_depth + 1:
            continue
        if bracket.lastgroup == "open":
            kept += (raw[position : bracket.start()], b"0")
            position = len(raw)
        else:
            position = bracket.end()
    return b"".join((*kept, raw[position:])) if kept else raw
