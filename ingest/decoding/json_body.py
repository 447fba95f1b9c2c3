"""Parse the JSON body of `POST /ingest`.

Most bodies are decoded in one step. If that fails, the body is parsed leniently and each event is validated by itself,
so that an invalid event does not affect the others. A body that is not JSON is rejected as a whole.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import Any

import msgspec

from ingest.decoding import lenient_json
from ingest.decoding.lenient_json import STRICT_ERRORS
from ingest.decoding.raw_records import Parsed, Raw, Rejection
from ingest.decoding.schema import Event, InvalidEvent, invalid_event, to_raw
from ingest.errors import Malformed, TooLarge


class _Body(Event):
    """A body that is an object: an envelope of events, or a single event."""

    batch: list[Event] | None = None
    events: list[Event] | None = None


_ENVELOPE_KEYS = ("batch", "events")
_decode_body = msgspec.json.Decoder(_Body).decode
_decode_list = msgspec.json.Decoder(list[Event]).decode
_decode_lines = msgspec.json.Decoder(Event).decode_lines


def decode(body: bytes, *, max_events: int, is_lines: bool = False) -> Parsed:
    """Decode a body: an event, a list, an envelope or, if `is_lines`, one JSON object per line."""
    body = body.removeprefix(codecs.BOM_UTF8).strip()
    if not body:
        raise Malformed("The body is empty. Send at least one event.")
    events = _decode_strictly(body, is_lines=is_lines) if lenient_json.is_plain(body) else None
    if events is None:
        return _decode_leniently(body, max_events, is_lines=is_lines)
    if len(events) > max_events:
        raise _too_many_events(max_events)
    parsed = Parsed()
    indexes, raw = parsed.indexes, parsed.events
    for index, event in enumerate(events):
        # The properties of such an event are its unknown fields, which `Event` does not keep.
        if event.event is not None and event.properties is None and event.data is None:
            return _decode_leniently(body, max_events, is_lines=is_lines)
        try:
            raw.append(to_raw(event))
            indexes.append(index)
        except InvalidEvent as error:
            parsed.rejections.append(Rejection(index, error.path, error.message))
        except STRICT_ERRORS:
            return _decode_leniently(body, max_events, is_lines=is_lines)
    return parsed


def _decode_strictly(body: bytes, *, is_lines: bool) -> list[Event] | None:
    """Decode all events at once. Return None if a single one has a problem."""
    try:
        if is_lines:
            return _decode_lines(body)
        if body[:1] == b"[":
            return _decode_list(body)
        event = _decode_body(body)
    except STRICT_ERRORS:
        return None
    if event.batch is None and event.events is None:
        return [event]
    return [*(event.batch or []), *(event.events or [])]


def _decode_leniently(body: bytes, max_events: int, *, is_lines: bool) -> Parsed:
    """Decode each event by itself."""
    parsed = Parsed()
    for index, value in enumerate(_lines(body, max_events) if is_lines else _values(body, max_events)):
        if index >= max_events:
            raise _too_many_events(max_events)
        if isinstance(value, InvalidEvent):
            parsed.rejections.append(Rejection(index, value.path, value.message))
            continue
        try:
            parsed.add(index, _convert(value))
        except InvalidEvent as error:
            parsed.rejections.append(Rejection(index, error.path, error.message))
    return parsed


def _convert(value: Any) -> Raw:
    """Convert one parsed event, or raise `InvalidEvent`."""
    try:
        return to_raw(msgspec.convert(value, Event), value)
    except msgspec.ValidationError as error:
        raise invalid_event(error) from None
    except STRICT_ERRORS:
        raise InvalidEvent("", "cannot be encoded as JSON") from None


def _too_many_events(max_events: int) -> TooLarge:
    return TooLarge(f"The body has more than {max_events:,} events. Send them in several requests.")


def _values(body: bytes, max_events: int) -> Iterator[Any]:
    """Yield the events of a JSON body."""
    try:
        value = lenient_json.parse(body)
    except (ValueError, RecursionError) as error:
        # Some clients send NDJSON as application/json.
        if not _is_json(body.partition(b"\n")[0]):
            raise Malformed(_not_json(error)) from None
        yield from _lines(body, max_events)
        return
    if isinstance(value, dict):
        yield from _unwrap(value)
    elif isinstance(value, list):
        if len(value) > max_events:
            raise _too_many_events(max_events)
        yield from value
    else:
        raise Malformed("The body must be an event, a list of events, or one JSON object per line.")


def _lines(body: bytes, max_events: int) -> Iterator[Any]:
    """Yield the events of an NDJSON body, with an error in the place of each line that is not JSON."""
    lines = [line for line in map(bytes.strip, body.split(b"\n")) if line]
    # Checked first, because a line that is not JSON takes much longer than its few bytes suggest.
    if len(lines) > max_events:
        raise _too_many_events(max_events)
    for line in lines:
        try:
            value = lenient_json.parse(line)
        except (ValueError, RecursionError):
            yield InvalidEvent("", "not valid JSON")
            continue
        if isinstance(value, dict):
            yield from _unwrap(value)
        else:
            yield value


def _unwrap(value: dict[str, Any]) -> Iterator[Any]:
    """Yield the events of an envelope, or the value itself if it is an event."""
    lists = [value[key] for key in _ENVELOPE_KEYS if isinstance(value.get(key), list)]
    if not lists:
        yield value
    for events in lists:
        yield from events


def _is_json(raw: bytes) -> bool:
    try:
        lenient_json.parse(raw)
    except (ValueError, RecursionError):
        return False
    return True


def _not_json(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"The body is not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})."
    if isinstance(error, lenient_json.TruncatedJson):
        return "The body is not valid JSON: it ends in the middle of a value."
    return "The body is not valid JSON."
