"""Validate events and convert them to raw spans and traces.

Events have three forms: trace, span and flat. Odd but harmless values are accepted and marked. Events that could not be
found again, because an id is missing or a time is impossible, are rejected with the path of the problem.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

import msgspec

from ingest.decoding import timestamps
from ingest.decoding.content_split import content_keys, pop_content
from ingest.decoding.lenient_json import MAX_DEPTH, STRICT_ERRORS, is_deep
from ingest.decoding.raw_records import Raw, RawSpan, RawTrace
from ingest.decoding.timestamps import MAX_UNIX_S, MIN_US

# Ids are part of an index entry, which can have 2,704 bytes.
ID_MAX_BYTES = 512
SESSION_MAX_BYTES = 1024

Number = int | float
_SESSION_KEYS = ("session_id", "session.id", "gen_ai.conversation.id")
_KINDS = {
    "": "span",
    "function": "tool",
    "mcp_tools": "tool",
    "response": "generation",
    "llm": "generation",
    "chat": "generation",
    "chain": "span",
    "retriever": "retrieval",
    "reranker": "retrieval",
}
_STATUSES = {
    "": "",
    "unset": "",
    "running": "",
    "ok": "ok",
    "success": "ok",
    "completed": "ok",
    "error": "error",
    "failed": "error",
    "failure": "error",
}
# Text of this length fits into an id in any script, since a character has at most four bytes.
_SHORT_CHARS = ID_MAX_BYTES // 4
# In an id, they would forge lines of mails and logs.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# Shorter JSON cannot be too deep, since brackets come in pairs.
_SHALLOW_BYTES = 2 * MAX_DEPTH


class InvalidEvent(Exception):
    """An event that cannot be stored. `path` is the field with the problem."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


def invalid_event(error: msgspec.ValidationError) -> InvalidEvent:
    """Convert an error of msgspec, which has the path at the end of its message."""
    message, _, path = str(error).partition(" - at `$")
    return InvalidEvent(path.strip("`."), message)


class Event(msgspec.Struct, gc=False):
    """The fields of all forms of events, as received."""

    type: str | None = None
    event: str | None = None
    trace_id: str | int | None = None
    span_id: str | int | None = None
    parent_id: str | int | None = None
    kind: str | None = None
    name: str | None = None
    status: str | None = None
    started_at: str | Number | None = None
    ended_at: str | Number | None = None
    timestamp: str | Number | None = None
    ts: str | Number | None = None
    session_id: str | int | None = None
    group_id: str | int | None = None
    data: Any = None
    properties: Any = None
    payload: Any = None
    metadata: Any = None


_FIELDS = frozenset(Event.__struct_fields__)
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def to_raw(event: Event, source: dict[str, Any] | None = None) -> Raw:
    """Convert an event. `source` is its JSON object, needed for flat events without `properties`."""
    if event.type == "span" or (event.type is None and event.event is None and event.span_id is not None):
        data = event.data
        return _span(event, data if type(data) is dict and event.properties is None else _data(event))
    if event.type == "trace":
        return _trace(event)
    if event.event is not None:
        return _flat_event(event, source or {})
    if event.type is None:
        raise InvalidEvent("type", 'expected "trace" or "span", or an "event" name')
    raise InvalidEvent("type", f'"{truncate(event.type, 40)}" is unknown, expected "trace" or "span"')


def _data(event: Event) -> dict[str, Any]:
    """Return `data` or `properties`, which are synonyms, or both merged."""
    if event.data is None:
        return _object(event.properties, "properties")
    data = _object(event.data, "data")
    return data if event.properties is None else {**_object(event.properties, "properties"), **data}


def _trace(event: Event) -> RawTrace:
    metadata = _object(event.metadata, "metadata")
    trace_id = _required_id(event.trace_id, "trace_id")
    started_us, ended_us = _times(event)
    encoded_metadata = _encode(metadata)
    _check_depth(encoded_metadata, "metadata")
    return RawTrace(
        trace_id=trace_id,
        name=event.name or "",
        group_id=_id(event.group_id, "group_id", SESSION_MAX_BYTES),
        session_id=_id(event.session_id, "session_id", SESSION_MAX_BYTES) or _session_in(metadata),
        started_us=started_us,
        ended_us=ended_us,
        metadata=metadata,
        encoded_metadata=encoded_metadata,
    )


def _span(event: Event, data: dict[str, Any], *, has_derived_id: bool = False) -> RawSpan:
    """Convert a span event.

    This is the hottest code of the server besides `copy_rows.pack_rows`. A function call costs as much as the work most
    of the steps do, so common values are handled inline.
    """
    name, kind = (event.event, event.event) if event.event else (event.name or "", event.kind or "")
    # A kind is in lower case, and the rules for secrets distinguish cases. An unknown one is kept until they have run.
    raw_kind, kind = kind, kind.lower()
    if name[:8] == "compact." != kind[:8]:
        raw_kind = kind = name
        data = _unwrap_custom_data(data)
    raw_kind, kind = _KINDS.get(kind, raw_kind), _KINDS.get(kind, kind)
    payload = event.payload
    keys = content_keys[tuple(data)]
    if keys or type(payload) is str:
        payload = _payload(payload, pop_content(kind, data, keys))
    trace_id, span_id, parent_id = _ids(event)
    started_us, ended_us = _times(event)
    encoded_data, encoded_payload = _encode(data), None if payload is None else _encode(payload)
    if len(encoded_data) > _SHALLOW_BYTES:
        _check_depth(encoded_data, "data")
    if encoded_payload is not None and len(encoded_payload) > _SHALLOW_BYTES:
        _check_depth(encoded_payload, "payload")
    # Positional arguments, because fourteen keywords would cost as much as creating the span.
    return RawSpan(
        trace_id,
        span_id,
        parent_id,
        raw_kind,
        name or _default_name(kind, data),
        _statuses[event.status],
        started_us,
        ended_us,
        data,
        payload,
        encoded_data,
        encoded_payload,
        _session(event, data),
        has_derived_id,
    )


def _payload(payload: Any, content: dict[str, Any]) -> Any:
    """Return the payload, parsed if it is JSON in a string, with the content that was found in the data."""
    if type(payload) is str:
        payload = _parse_json_text(payload)
    if not content:
        return payload
    if payload is None:
        return content
    return {**content, **payload} if isinstance(payload, dict) else {**content, "payload": payload}


def _default_name(kind: str, data: dict[str, Any]) -> str:
    """Return the best name in the data of a span without one. Without any, the kind becomes its name."""
    if isinstance(name := data.get("name"), str) and name:
        return name
    if kind == "generation" and isinstance(model := data.get("model"), str) and model:
        return model
    if kind == "handoff" and isinstance(target := data.get("to_agent"), str):
        return f"{data.get('from_agent') or ''} → {target}".strip()
    return ""


def _flat_event(event: Event, source: dict[str, Any]) -> RawSpan:
    """Convert an event in the form of document 000: its own fields are its properties, and ids may be missing."""
    if event.data is not None or event.properties is not None:
        data = _data(event)
    else:
        data = {key: value for key, value in source.items() if key not in _FIELDS}
    if event.trace_id in {None, ""}:
        session_id = _id(event.session_id, "session_id", ID_MAX_BYTES) or _session_in(data)
        if not session_id:
            raise InvalidEvent("session_id", "expected a session_id or a trace_id")
        event.trace_id = session_id
    has_derived_id = event.span_id in {None, ""}
    if has_derived_id:
        # Derived from the content, so that a replay of the event gives the same span.
        content = (event.trace_id, event.event, event.ts, event.timestamp, event.started_at, data, event.payload)
        event.span_id = hashlib.blake2b(msgspec.json.encode(content, order="sorted"), digest_size=8).hexdigest()
    return _span(event, data, has_derived_id=has_derived_id)


def _unwrap_custom_data(data: dict[str, Any]) -> dict[str, Any]:
    """Return the properties inside an Agents SDK custom span, whose data is `{"name": …, "data": {…}}`."""
    inner = data.get("data")
    return inner if isinstance(inner, dict) else data


def _object(value: Any, path: str) -> dict[str, Any]:
    """Return an object, which may be JSON in a string."""
    if value is None:
        return {}
    if isinstance(value, str):
        value = _parse_json_text(value)
    if not isinstance(value, dict):
        raise InvalidEvent(path, "expected an object")
    return value


def _parse_json_text(text: str) -> Any:
    """Parse a string that contains a JSON object or list. Return any other string unchanged."""
    if text.lstrip()[:1] not in {"{", "["} or "\\u0000" in text:
        return text
    try:
        return _decode(text)
    except STRICT_ERRORS:
        return text


def _check_depth(encoded: bytes, path: str) -> None:
    if len(encoded) > _SHALLOW_BYTES and is_deep(encoded):
        raise InvalidEvent(path, f"nested deeper than {MAX_DEPTH} levels")


def _ids(event: Event) -> tuple[str, str, str | None]:
    trace_id, span_id, parent_id = event.trace_id, event.span_id, event.parent_id
    # Not all texts that `isprintable` is False for have control characters. The functions look closer.
    if type(trace_id) is not str or not 0 < len(trace_id) <= _SHORT_CHARS or not trace_id.isprintable():
        trace_id = _required_id(trace_id, "trace_id")
    if type(span_id) is not str or not 0 < len(span_id) <= _SHORT_CHARS or not span_id.isprintable():
        span_id = _required_id(span_id, "span_id")
    if parent_id is not None and (
        type(parent_id) is not str or not 0 < len(parent_id) <= _SHORT_CHARS or not parent_id.isprintable()
    ):
        parent_id = _id(parent_id, "parent_id", ID_MAX_BYTES)
    return trace_id, span_id, parent_id


def _required_id(value: str | int | None, path: str) -> str:
    text = _id(value, path, ID_MAX_BYTES)
    if not text:
        raise InvalidEvent(path, "required")
    return text


def _id(value: str | int | None, path: str, max_bytes: int) -> str | None:
    if type(value) is str and 0 < len(value) <= _SHORT_CHARS and value.isprintable():
        return value
    if value is None or value == "":
        return None
    text = value if isinstance(value, str) else str(value)
    if len(text) > _SHORT_CHARS and len(text.encode()) > max_bytes:
        raise InvalidEvent(path, f"longer than {max_bytes} bytes")
    if match := CONTROL.search(text):
        raise InvalidEvent(path, f"has the control character U+{ord(match[0]):04X}")
    return text


def _session(event: Event, data: dict[str, Any]) -> str | None:
    """Return the session that a span names, in its own field or in its data."""
    if event.session_id and (session_id := _id(event.session_id, "session_id", SESSION_MAX_BYTES)):
        return session_id
    named = data.get("session_id")
    if type(named) is str and 0 < len(named) <= _SHORT_CHARS and named.isprintable():
        return named
    return _session_in(data)


def _session_in(data: dict[str, Any]) -> str | None:
    # Data may contain anything under these keys. A value that is too long or has several lines is not an id.
    session_id = _session_of(data)
    if session_id is None or len(session_id.encode()) > SESSION_MAX_BYTES or CONTROL.search(session_id):
        return None
    return session_id


def _session_of(data: dict[str, Any]) -> str | None:
    for key in _SESSION_KEYS:
        value = data.get(key)
        if value is None:
            continue
        if isinstance(value, str) and value:
            return value
        if type(value) is int:
            return str(value)
    return None


class _Statuses(dict[str | None, str]):
    def __missing__(self, value: str | None) -> str:
        status = "" if value is None else _STATUSES.get(value.lower())
        if status is None:
            raise InvalidEvent("status", 'expected "ok" or "error"')
        return status


_statuses = _Statuses(_STATUSES)


def _times(event: Event) -> tuple[int | None, int | None]:
    started_at, ended_at = event.started_at, event.ended_at
    if type(started_at) is float and type(ended_at) is float and 0.0 <= started_at <= ended_at < MAX_UNIX_S:
        return round(started_at * 1_000_000) + MIN_US, round(ended_at * 1_000_000) + MIN_US
    started_us = _time(started_at, "started_at")
    ended_us = _time(ended_at, "ended_at")
    if started_us is None and ended_us is None:
        # An event with a single time is an instant.
        path = "ts" if event.timestamp is None else "timestamp"
        started_us = ended_us = _time(event.ts if event.timestamp is None else event.timestamp, path)
    return started_us, ended_us


def _time(value: str | Number | None, path: str) -> int | None:
    if type(value) is float and 0.0 <= value < MAX_UNIX_S:
        return round(value * 1_000_000) + MIN_US
    if value is None or value == "":
        return None
    try:
        time_us = timestamps.from_text(value) if isinstance(value, str) else timestamps.from_unix(value)
    except (ValueError, OverflowError):
        raise InvalidEvent(path, "expected an ISO 8601 time or Unix seconds") from None
    if timestamps.is_in_range(time_us):
        return time_us
    raise InvalidEvent(path, "expected a time between the years 1970 and 2200")


def truncate(text: str, max_chars: int) -> str:
    """Shorten text to `max_chars` characters and append the number of characters removed."""
    return text if len(text) <= max_chars else f"{text[:max_chars]}… (+{len(text) - max_chars:,} characters)"
