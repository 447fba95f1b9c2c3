"""What an event must be, and the span or trace it becomes; a refusal names the path.

Three forms come in (trace, span, flat) and two things come out. What is odd but harmless is mended with a mark;
what would make a span unfindable (no id, an impossible time) is refused.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import Raw

from ingest.events import EPOCH, Span, Trace, microseconds
from ingest.facts import facts_of, session_of
from ingest.texts import split_texts

# Ids are part of an index entry, which holds 2,704 bytes; names and kinds are shown on one line.
ID_MAX_BYTES = 512
SESSION_MAX_BYTES = 1024
NAME_MAX_CHARS = 500
KIND_MAX_CHARS = 100
# Deeper than this, readers' JSON parsers give up; so does Postgres, some thousands of levels later.
MAX_DEPTH = 200
# Agents' clocks are wrong by years, not by centuries.
_FIRST_US = microseconds(datetime(1970, 1, 1, tzinfo=UTC))
_END_US = microseconds(datetime(2200, 1, 1, tzinfo=UTC))

Number = int | float
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
_EMPTY = b"{}"
_NULL = b"null"
ABSENT = Raw(_NULL)


class Invalid(Exception):
    """This event cannot be stored; `path` says which part of it."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


class Event(msgspec.Struct, gc=False):
    """Every form of event at once, as it came. JSON whose content is not ours to judge stays raw."""

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
    data: Raw = ABSENT
    properties: Raw = ABSENT
    payload: Raw = ABSENT
    metadata: Raw = ABSENT


_FIELDS = frozenset(Event.__struct_fields__)
_decode_text = msgspec.json.Decoder(str).decode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def to_record(event: Event, raw: bytes | None = None) -> Span | Trace:
    """The span or trace that `event` tells of. `raw` is its JSON, needed by flat events without `properties`."""
    if event.type == "trace":
        return _trace(event)
    if event.type == "span" or (event.type is None and event.event is None and event.span_id is not None):
        return _span(
            event, _object(event.data, "data") if is_given(event.data) else _object(event.properties, "properties")
        )
    if event.event is not None:
        return _flat(event, raw)
    if event.type is None:
        raise Invalid("type", 'expected "trace" or "span", or an "event" name')
    raise Invalid("type", f'"{cut(event.type, 40)}" is not known: expected "trace" or "span"')


def _trace(event: Event) -> Trace:
    metadata = _object(event.metadata, "metadata")
    trace_id = _required(event.trace_id, "trace_id")
    started, ended = _times(event)
    return Trace(
        trace_id=trace_id,
        name=cut(event.name or "", NAME_MAX_CHARS),
        group_id=_identifier(event.group_id, "group_id", SESSION_MAX_BYTES),
        session_id=_identifier(event.session_id, "session_id", SESSION_MAX_BYTES) or _session(_decode(metadata)),
        started_us=started,
        ended_us=ended,
        metadata=metadata,
    )


def _span(event: Event, data: bytes) -> Span:
    trace_id = _required(event.trace_id, "trace_id")
    span_id = _required(event.span_id, "span_id")
    name = event.event or event.name or ""
    kind = (event.event or event.kind or "").lower()
    if name.startswith("compact.") and not kind.startswith("compact."):
        kind = name
        data = _unwrap(data)
    kind = _KINDS.get(kind, kind)
    payload = _payload(event.payload)
    fields = _decode(data)
    said = None if payload is None else _decode(payload)
    if texts := split_texts(kind, fields):
        said = {**texts, **said} if isinstance(said, dict) else texts if said is None else {**texts, "payload": said}
        data, payload = _encode(fields), _encode(said)
    started, ended = _times(event)
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=_identifier(event.parent_id, "parent_id", ID_MAX_BYTES),
        kind=cut(kind, KIND_MAX_CHARS),
        name=cut(name or kind, NAME_MAX_CHARS),
        status=_status(event.status),
        started_us=started,
        ended_us=ended,
        data=data,
        payload=payload,
        session_id=_identifier(event.session_id, "session_id", SESSION_MAX_BYTES) or _session(fields),
        facts=facts_of(kind, fields),
        fields=fields,
        said=said,
    )


def _flat(event: Event, raw: bytes | None) -> Span:
    """Document 000's form: the event's own fields are its properties, and ids may be missing."""
    if is_given(event.properties):
        data = _object(event.properties, "properties")
    elif is_given(event.data):
        data = _object(event.data, "data")
    else:
        fields = _decode_fields(raw if raw is not None else _encode(event))
        data = _encode({key: value for key, value in fields.items() if key not in _FIELDS})
    if event.trace_id in {None, ""}:
        session_id = _identifier(event.session_id, "session_id", ID_MAX_BYTES) or _session(_decode(data))
        if not session_id:
            raise Invalid("session_id", "expected a session_id or a trace_id")
        event.trace_id = session_id
    if event.span_id in {None, ""}:
        # The same event sent again must be the same span.
        told = f"{event.trace_id}\0{event.event}\0{event.ts}\0{event.timestamp}\0".encode("utf-8", "surrogatepass")
        event.span_id = hashlib.blake2b(told + data + bytes(event.payload), digest_size=8).hexdigest()
    return _span(event, data)


def _unwrap(data: bytes) -> bytes:
    """The properties inside an Agents SDK custom span, whose data is `{"name": …, "data": {…}}`."""
    if b'"data"' not in data:
        return data
    inner = _decode_fields(data).get("data")
    return bytes(inner) if inner is not None and bytes(inner)[:1] == b"{" else data


def _object(raw: Raw, path: str) -> bytes:
    """The JSON object that `raw` is; a JSON string that holds one is taken for it."""
    if raw is ABSENT:
        return _EMPTY
    value = bytes(raw)
    if value == _NULL:
        return _EMPTY
    if value[:1] == b'"':
        value = _inner_json(value)
    if value[:1] != b"{":
        raise Invalid(path, "expected an object")
    return _bounded(value, path)


def _payload(raw: Raw) -> bytes | None:
    if raw is ABSENT:
        return None
    value = bytes(raw)
    if value == _NULL:
        return None
    if value[:1] == b'"':
        inner = _inner_json(value)
        value = inner if inner[:1] in b"{[" else value
    return _bounded(value, "payload")


def _inner_json(value: bytes) -> bytes:
    inner = _decode_text(value).strip().encode()
    if inner[:1] not in (b"{", b"["):
        return value
    try:
        _decode(inner)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return value
    return value if b"\\u0000" in inner else inner


def _bounded(value: bytes, path: str) -> bytes:
    # Counting every bracket is quick; following them is only needed where there are many.
    if value.count(b"{") + value.count(b"[") > MAX_DEPTH and depth(value) > MAX_DEPTH:
        raise Invalid(path, f"nested deeper than {MAX_DEPTH} levels")
    return value


def depth(value: bytes) -> int:
    """How deeply `value`, which is valid JSON, nests."""
    deepest = level = 0
    inside = escaped = False
    for byte in value:
        if inside:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                inside = False
        elif byte == 0x22:
            inside = True
        elif byte in b"{[":
            level += 1
            deepest = max(deepest, level)
        elif byte in b"}]":
            level -= 1
    return deepest


def is_given(raw: Raw) -> bool:
    return raw is not ABSENT and bytes(raw) != _NULL


def _required(value: str | int | None, path: str) -> str:
    found = _identifier(value, path, ID_MAX_BYTES)
    if not found:
        raise Invalid(path, "required")
    return found


def _identifier(value: str | int | None, path: str, max_bytes: int) -> str | None:
    if value is None or value == "":
        return None
    text = value if isinstance(value, str) else str(value)
    if len(text) * 4 > max_bytes and len(text.encode()) > max_bytes:
        raise Invalid(path, f"longer than {max_bytes} bytes")
    return text


def _session(fields: dict[str, Any]) -> str | None:
    # Named inside the data, where it may be anything: too long to be an id, it is not one.
    value = session_of(fields)
    return value if value is None or len(value.encode()) <= SESSION_MAX_BYTES else None


def _status(value: str | None) -> str:
    if value is None or value == "ok":
        return value or ""
    found = _STATUSES.get(value.lower())
    if found is None:
        raise Invalid("status", 'expected "ok" or "error"')
    return found


def _times(event: Event) -> tuple[int | None, int | None]:
    started = _time(event.started_at, "started_at")
    ended = _time(event.ended_at, "ended_at")
    if started is None and ended is None:
        # An event with one time is an instant.
        path = "ts" if event.timestamp is None else "timestamp"
        started = ended = _time(event.ts if event.timestamp is None else event.timestamp, path)
    return started, ended


def _time(value: str | Number | None, path: str) -> int | None:
    if value is None or value == "":
        return None
    try:
        found = microseconds(_parsed(value)) if isinstance(value, str) else _from_unix(value)
    except (ValueError, OverflowError):
        raise Invalid(path, "expected an ISO 8601 time or Unix seconds") from None
    if _FIRST_US <= found < _END_US:
        return found
    raise Invalid(path, "the time does not lie between the years 1970 and 2200")


def _parsed(value: str) -> datetime:
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return EPOCH + timedelta(microseconds=_from_unix(float(value)))
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _from_unix(value: Number) -> int:
    # Milli-, micro- and nanoseconds are told apart by their size: as seconds they would lie past the year 5000.
    for _ in range(3):
        if value > 1e11:
            value /= 1000
    return round(value * 1_000_000) + _FIRST_US


def cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else f"{text[:max_chars]}… (+{len(text) - max_chars:,} characters)"
