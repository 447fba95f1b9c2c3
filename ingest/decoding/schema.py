"""What an event must be, and the span or trace it becomes; a refusal names the path.

Three forms come in (trace, span, flat) and two things come out. What is odd but harmless is mended with a mark;
what would make a span unfindable (no id, an impossible time) is refused.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from ingest.decoding.content_split import split_texts, text_names
from ingest.decoding.records import EPOCH, Span, Trace, microseconds
from ingest.decoding.span_facts import FACTLESS_KINDS, NOTHING, facts_of, session_of

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
_SURELY_TIME_S = (_END_US - _FIRST_US) / 1_000_000 - 1

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
# Characters of at most four bytes each.
_SURELY_SHORT = ID_MAX_BYTES // 4
# Brackets come in pairs.
_SURELY_SHALLOW = 2 * MAX_DEPTH


class Invalid(Exception):
    """This event cannot be stored; `path` says which part of it."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


class Event(msgspec.Struct, gc=False):
    """Every form of event at once, as it came."""

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


def to_record(event: Event, raw: bytes | None = None) -> Span | Trace:
    """The span or trace that `event` tells of. `raw` is its JSON, needed by flat events without `properties`."""
    if event.type == "span" or (event.type is None and event.event is None and event.span_id is not None):
        fields = event.data
        return _span(event, fields if type(fields) is dict and event.properties is None else _told(event))
    if event.type == "trace":
        return _trace(event)
    if event.event is not None:
        return _flat(event, raw)
    if event.type is None:
        raise Invalid("type", 'expected "trace" or "span", or an "event" name')
    raise Invalid("type", f'"{cut(event.type, 40)}" is not known: expected "trace" or "span"')


def _told(event: Event) -> dict[str, Any]:
    """`data` or `properties`, two names for one thing; whoever uses both means both."""
    if event.data is None:
        fields = event.properties
        return fields if type(fields) is dict else _object(fields, "properties")
    fields = event.data if type(event.data) is dict else _object(event.data, "data")
    return fields if event.properties is None else {**_object(event.properties, "properties"), **fields}


def _trace(event: Event) -> Trace:
    metadata = _object(event.metadata, "metadata")
    trace_id = _required(event.trace_id, "trace_id")
    started, ended = _times(event)
    return Trace(
        trace_id=trace_id,
        name=cut(event.name or "", NAME_MAX_CHARS),
        group_id=_identifier(event.group_id, "group_id", SESSION_MAX_BYTES),
        session_id=_identifier(event.session_id, "session_id", SESSION_MAX_BYTES) or _session(metadata),
        started_us=started,
        ended_us=ended,
        metadata=_encoded(metadata, "metadata"),
    )


def _span(event: Event, fields: dict[str, Any]) -> Span:
    """The span that an event tells of.

    The hottest code of the server, beside `rows.pack`: a call costs as much as what most of these functions do, so the
    usual value is known without one.
    """
    name = event.event or event.name or ""
    kind = (event.event or event.kind or "").lower()
    if name[:8] == "compact." != kind[:8]:
        kind = name
        fields = _unwrapped(fields)
    kind = _KINDS.get(kind, kind)
    said = event.payload
    if type(said) is str:
        said = _inner_json(said)
    if (names := text_names(fields)) and (texts := split_texts(kind, fields, names)):
        said = {**texts, **said} if isinstance(said, dict) else texts if said is None else {**texts, "payload": said}
    started, ended = event.started_at, event.ended_at
    started_us: int | None
    ended_us: int | None
    if type(started) is float and type(ended) is float and 0.0 <= started <= ended < _SURELY_TIME_S:
        started_us, ended_us = round(started * 1_000_000) + _FIRST_US, round(ended * 1_000_000) + _FIRST_US
    else:
        started_us, ended_us = _times(event)
    trace_id, span_id, parent_id = event.trace_id, event.span_id, event.parent_id
    if type(trace_id) is not str or not 0 < len(trace_id) <= _SURELY_SHORT:
        trace_id = _required(trace_id, "trace_id")
    if type(span_id) is not str or not 0 < len(span_id) <= _SURELY_SHORT:
        span_id = _required(span_id, "span_id")
    if parent_id is not None and (type(parent_id) is not str or not 0 < len(parent_id) <= _SURELY_SHORT):
        parent_id = _identifier(parent_id, "parent_id", ID_MAX_BYTES)
    session_id = event.session_id and _identifier(event.session_id, "session_id", SESSION_MAX_BYTES)
    if not session_id:
        session_id = fields.get("session_id")
        if type(session_id) is not str or not 0 < len(session_id) <= _SURELY_SHORT:
            session_id = _session(fields)
    # By position: names for fourteen fields cost as much as making the span.
    return Span(
        trace_id,
        span_id,
        parent_id,
        kind if len(kind) <= KIND_MAX_CHARS else cut(kind, KIND_MAX_CHARS),
        name if 0 < len(name) <= NAME_MAX_CHARS else cut(name or _name(kind, fields), NAME_MAX_CHARS),
        "ok" if event.status == "ok" else _status(event.status),
        started_us,
        ended_us,
        _encoded(fields, "data"),
        None if said is None else _encoded(said, "payload"),
        session_id,
        NOTHING if kind in FACTLESS_KINDS else facts_of(kind, fields),
        fields,
        said,
    )


def _name(kind: str, fields: dict[str, Any]) -> str:
    """What a nameless span is best called."""
    if isinstance(name := fields.get("name"), str) and name:
        return name
    if kind == "generation" and isinstance(model := fields.get("model"), str) and model:
        return model
    if kind == "handoff" and isinstance(target := fields.get("to_agent"), str):
        return f"{fields.get('from_agent') or ''} → {target}".strip()
    return kind


def _flat(event: Event, raw: bytes | None) -> Span:
    """Document 000's form: the event's own fields are its properties, and ids may be missing."""
    if event.data is not None or event.properties is not None:
        fields = _told(event)
    else:
        told = _decode(raw) if raw is not None else {}
        fields = {key: value for key, value in told.items() if key not in _FIELDS}
    if event.trace_id in {None, ""}:
        session_id = _identifier(event.session_id, "session_id", ID_MAX_BYTES) or _session(fields)
        if not session_id:
            raise Invalid("session_id", "expected a session_id or a trace_id")
        event.trace_id = session_id
    if event.span_id in {None, ""}:
        # The same event sent again must be the same span.
        told = (event.trace_id, event.event, event.ts, event.timestamp, event.started_at, fields, event.payload)
        event.span_id = hashlib.blake2b(msgspec.json.encode(told, order="sorted"), digest_size=8).hexdigest()
    return _span(event, fields)


def _unwrapped(fields: dict[str, Any]) -> dict[str, Any]:
    """The properties inside an Agents SDK custom span, whose data is `{"name": …, "data": {…}}`."""
    inner = fields.get("data")
    return inner if isinstance(inner, dict) else fields


def _object(value: Any, path: str) -> dict[str, Any]:
    """The object that `value` is; a text that holds one as JSON is taken for it."""
    if value is None:
        return {}
    if isinstance(value, str):
        value = _inner_json(value)
    if not isinstance(value, dict):
        raise Invalid(path, "expected an object")
    return value


def _inner_json(text: str) -> Any:
    """The object or list that `text` is as JSON, or the text itself."""
    if text.lstrip()[:1] not in {"{", "["} or "\\u0000" in text:
        return text
    try:
        return _decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return text


def _encoded(value: Any, path: str) -> bytes:
    encoded = _encode(value)
    if len(encoded) > _SURELY_SHALLOW and is_deep(encoded):
        raise Invalid(path, f"nested deeper than {MAX_DEPTH} levels")
    return encoded


def is_deep(value: bytes) -> bool:
    """Whether `value`, which is valid JSON, nests deeper than is taken."""
    # Few brackets are quickly counted; following them is seldom needed.
    return value.count(b"{") + value.count(b"[") > MAX_DEPTH and _depth(value) > MAX_DEPTH


def _depth(value: bytes) -> int:
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


def _required(value: str | int | None, path: str) -> str:
    found = _identifier(value, path, ID_MAX_BYTES)
    if not found:
        raise Invalid(path, "required")
    return found


def _identifier(value: str | int | None, path: str, max_bytes: int) -> str | None:
    if type(value) is str and 0 < len(value) <= _SURELY_SHORT:
        return value
    if value is None or value == "":
        return None
    text = value if isinstance(value, str) else str(value)
    if len(text) > _SURELY_SHORT and len(text.encode()) > max_bytes:
        raise Invalid(path, f"longer than {max_bytes} bytes")
    return text


def _session(fields: dict[str, Any]) -> str | None:
    # Named inside the data, where it may be anything: too long to be an id, it is not one.
    value = session_of(fields)
    if value is None or len(value) <= _SURELY_SHORT or len(value.encode()) <= SESSION_MAX_BYTES:
        return value
    return None


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
    if type(value) is float and 0.0 <= value < _SURELY_TIME_S:
        return round(value * 1_000_000) + _FIRST_US
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
    if value > 1e11:
        # Milli-, micro- and nanoseconds are told apart by their size: as seconds they would lie past the year 5000.
        value /= 1e9 if value > 1e17 else 1e6 if value > 1e14 else 1e3
    return round(value * 1_000_000) + _FIRST_US


def cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else f"{text[:max_chars]}… (+{len(text) - max_chars:,} characters)"
