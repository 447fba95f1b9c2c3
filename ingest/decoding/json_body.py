"""From the bytes of a body to its events, one refusal for each that cannot be one.

The usual body is decoded in one go. A body with anything strange in it (NUL, a lone surrogate, NaN, brackets without
end, half an event) is taken apart instead, so that one event never costs its neighbours.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ingest.decoding.records import Rejection, Span, Trace
from ingest.decoding.schema import MAX_DEPTH, Event, Invalid, to_record
from ingest.http.errors import Malformed, TooLarge


class _Body(Event):
    """A body that begins with a brace: an envelope of events, or one event."""

    batch: list[Event] | None = None
    events: list[Event] | None = None


_Faults = (msgspec.MsgspecError, RecursionError, UnicodeError)
_decode_body = msgspec.json.Decoder(_Body).decode
_decode_list = msgspec.json.Decoder(list[Event]).decode
_decode_lines = msgspec.json.Decoder(Event).decode_lines
_decode_event = msgspec.json.Decoder(Event).decode
_decode_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_ENVELOPES = ("batch", "events")

Record = Span | Trace


class Decoded(msgspec.Struct):
    """The records of a body, the position of each in it, and what of it was refused."""

    records: list[Record] = []
    indexes: list[int] = []
    rejections: list[Rejection] = []

    @property
    def count(self) -> int:
        """How many events of the body were taken: one of OTLP's may be several records, and its trace is none."""
        return len(set(self.indexes) - {-1})


def decode(body: bytes, *, max_events: int, is_lines: bool = False) -> Decoded:
    """The events of a body, whatever its form."""
    body = body.removeprefix(codecs.BOM_UTF8).strip()
    if not body:
        raise Malformed("the body is empty")
    events = _usual(body, is_lines=is_lines) if is_plain(body) else None
    if events is None:
        return _taken_apart(body, max_events, is_lines=is_lines)
    if len(events) > max_events:
        raise TooLarge(f"{len(events):,} events in one body; at most {max_events:,} are taken")
    decoded = Decoded()
    records, indexes = decoded.records, decoded.indexes
    for index, event in enumerate(events):
        try:
            # A flat event without `properties` needs its own bytes, which only taking apart gives.
            if event.event is not None and event.properties is None and event.data is None:
                return _taken_apart(body, max_events, is_lines=is_lines)
            records.append(to_record(event))
            indexes.append(index)
        except Invalid as invalid:
            decoded.rejections.append(Rejection(index, invalid.path, invalid.message))
        except _Faults:
            return _taken_apart(body, max_events, is_lines=is_lines)
    return decoded


def is_plain(body: bytes) -> bool:
    """Nothing in it that JSON allows and Postgres does not."""
    # To look for one byte is quicker by far.
    if b"\\" in body and b"\\u0000" in body:
        return False
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _usual(body: bytes, *, is_lines: bool) -> list[Event] | None:
    try:
        if is_lines:
            events = _decode_lines(body)
        elif body[:1] == b"[":
            events = _decode_list(body)
        else:
            found = _decode_body(body)
            if found.batch is None and found.events is None:
                return [found]
            events = [*(found.batch or []), *(found.events or [])]
    except _Faults:
        return None
    return events


def _taken_apart(body: bytes, max_events: int, *, is_lines: bool) -> Decoded:
    decoded = Decoded()
    for index, raw in enumerate(_pieces(body, is_lines=is_lines)):
        if index >= max_events:
            raise TooLarge(f"more than {max_events:,} events in one body")
        try:
            usable = mended(raw)
            decoded.records.append(to_record(_decode_event(usable), usable))
            decoded.indexes.append(index)
        except Invalid as invalid:
            decoded.rejections.append(Rejection(index, invalid.path, invalid.message))
        except msgspec.ValidationError as error:
            decoded.rejections.append(Rejection(index, *path_of(error)))
        except _Faults:
            decoded.rejections.append(Rejection(index, "", "not valid JSON"))
    return decoded


def path_of(error: msgspec.ValidationError) -> tuple[str, str]:
    """Where in an event the fault lies, and what it is."""
    message, _, path = str(error).partition(" - at `$")
    return path.strip("`."), message


def mended(raw: bytes) -> bytes:
    """`raw` as JSON that every reader takes: no NUL, no half character, no NaN, no number beyond all numbers."""
    if is_plain(raw):
        try:
            _decode_any(raw)
            return raw
        except _Faults:
            pass
    if _brackets(raw) > MAX_DEPTH:
        raise Invalid("", f"nested deeper than {MAX_DEPTH} levels")
    try:
        value = json.loads(raw.decode("utf-8", "replace"), parse_int=_whole, strict=False)
    except (ValueError, RecursionError):
        raise Invalid("", "not valid JSON") from None
    return _encode(sound(value))


def _whole(digits: str) -> int | str:
    # Numbers of hundreds of digits are somebody's mistake or attack; as text they harm nobody.
    return int(digits) if len(digits) <= 40 else digits


def sound(value: Any) -> Any:
    """A copy without NUL, half characters, NaN or infinity: a mark or a word stands where they were."""
    if isinstance(value, str):
        return _sound_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {_sound_text(key): sound(item) for key, item in value.items()}
    if isinstance(value, list):
        return [sound(item) for item in value]
    return value


def _sound_text(text: str) -> str:
    """NUL and half characters become U+FFFD, the mark of something that could not be shown."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{},]', re.DOTALL)
_FOLLOWED_BY = {b"[": re.compile(rb"\s*:\s*(?=\[)"), b"{": re.compile(rb"\s*:\s*(?=\{)")}


def _brackets(raw: bytes) -> int:
    deepest = level = 0
    for token in _TOKEN.finditer(raw):
        mark = token[0]
        if mark in (b"[", b"{"):
            level += 1
            deepest = max(deepest, level)
        elif mark in (b"]", b"}"):
            level -= 1
    return deepest


def _pieces(body: bytes, *, is_lines: bool) -> Iterator[bytes]:
    """The events of a body as they stand in it, found by counting brackets: whatever is inside them stays there."""
    if is_lines:
        for line in filter(None, map(bytes.strip, body.split(b"\n"))):
            # A broken line is one broken event.
            yield from _elements_of(line) if line[:1] == b"{" and end_of(line) == len(line) else (line,)
    elif body[:1] == b"[":
        yield from elements(body)
    elif body[:1] == b"{":
        yield from _from_object(body)
    else:
        raise Malformed("the body is not JSON: expected an object, a list of objects, or a line of JSON for each event")


def _from_object(body: bytes) -> Iterator[bytes]:
    end = end_of(body)
    if 0 < end < len(body) and body[end:].lstrip(b" \t\r")[:1] in {b"\n", b"{"}:
        # More than one value, or something on the next line: lines of JSON sent as JSON.
        yield from _pieces(body, is_lines=True)
        return
    if end != len(body):
        raise Malformed("the body is not JSON: it ends in the middle, or goes on after its end")
    yield from _elements_of(body)


def _elements_of(body: bytes) -> Iterator[bytes]:
    lists = [part for key in _ENVELOPES if (part := member(body, key)) is not None]
    if not lists:
        yield body
    for part in lists:
        yield from elements(part)


def end_of(value: bytes, start: int = 0) -> int:
    """Where the list or object that begins at `start` ends; -1 if it does not."""
    level = 0
    for token in _TOKEN.finditer(value, start):
        mark = token[0]
        if mark in (b"[", b"{"):
            level += 1
        elif mark in (b"]", b"}"):
            level -= 1
            if level <= 0:
                return token.end()
    return -1


def elements(body: bytes) -> Iterator[bytes]:
    """The elements of a list as they stand in it."""
    level, begin = 0, 1
    for token in _TOKEN.finditer(body):
        mark = token[0]
        if mark in (b"[", b"{"):
            level += 1
        elif mark in (b"]", b"}"):
            level -= 1
            if level == 0:
                if last := body[begin : token.start()].strip():
                    yield last
                if body[token.end() :].strip():
                    raise Malformed("the body is not JSON: it goes on after its end")
                return
        elif mark == b"," and level == 1:
            yield body[begin : token.start()].strip()
            begin = token.end()
    raise Malformed("the body is not JSON: it ends in the middle")


def member(body: bytes, key: str, bracket: bytes = b"[") -> bytes | None:
    """The list (or the object, for a brace) under `key` of the object `body`, wherever it stands in it."""
    name = f'"{key}"'.encode()
    level = 0
    for token in _TOKEN.finditer(body):
        mark = token[0]
        if mark in (b"[", b"{"):
            level += 1
        elif mark in (b"]", b"}"):
            level -= 1
        elif level == 1 and mark == name and (found := _FOLLOWED_BY[bracket].match(body, token.end())):
            return body[found.end() : end_of(body, found.end())]
    return None
