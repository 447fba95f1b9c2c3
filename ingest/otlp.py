"""OpenTelemetry's spans become ours: OTLP/HTTP in protobuf and in JSON.

Messages are walked by hand, which is many times quicker than turning one form into the other. A span that cannot be
stored is counted and named in the partial success that the protocol has for it; its neighbours are stored.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from ingest.attributes import kind_of, parsed, session_of, split
from ingest.decode import Decoded, mended, sound
from ingest.errors import Malformed
from ingest.events import Rejection, Span, Trace
from ingest.facts import facts_of
from ingest.schema import NAME_MAX_CHARS, SESSION_MAX_BYTES, Invalid, cut

# From the Unix epoch in nanoseconds to Postgres' in microseconds.
_EPOCH_US = 946_684_800_000_000
_LAST_US = 7_258_118_400_000_000  # the year 2200
_MAX_DEPTH = 64
_encode = msgspec.json.Encoder().encode


class _Moment(msgspec.Struct):
    """One event on a span."""

    name: str
    time_ns: int
    attributes: dict[str, Any]


class _Told(msgspec.Struct):
    """A span as OTLP tells it, whichever way it was written."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    started_ns: int
    ended_ns: int
    attributes: dict[str, Any]
    moments: list[_Moment]
    is_error: bool
    is_ok: bool
    message: str
    resource: dict[str, Any]


def from_protobuf(body: bytes, *, max_events: int) -> Decoded:
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except (DecodeError, RecursionError):
        raise Malformed("the body is not an OTLP ExportTraceServiceRequest in protobuf") from None
    return _records(_walk_protobuf(request), max_events)


def from_json(body: bytes, *, max_events: int) -> Decoded:
    try:
        request = _decode_json(body if b"\\u0000" not in body else mended(body))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        try:
            request = _decode_json(mended(body))
        except (msgspec.MsgspecError, Invalid) as error:
            raise Malformed(f"the body is not an OTLP ExportTraceServiceRequest in JSON: {error}") from None
    except Invalid as error:
        raise Malformed(error.message) from None
    return _records(_walk_json(request), max_events)


def response(rejections: list[Rejection], *, is_json: bool) -> bytes:
    """The answer to what was stored, with the number of spans that were not and the first reason."""
    if not rejections:
        return b"{}" if is_json else b""
    reason = "; ".join(f"span {bad.index}: {bad.path} {bad.message}".replace("  ", " ") for bad in rejections[:5])
    if is_json:
        return _encode({"partialSuccess": {"rejectedSpans": str(len(rejections)), "errorMessage": reason}})
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = len(rejections)
    answer.partial_success.error_message = reason
    return bytes(answer.SerializeToString())


def status(message: str, *, is_json: bool) -> bytes:
    """A refusal as the protocol wants it: a google.rpc.Status with a message."""
    if is_json:
        return _encode({"code": 3, "message": message})
    text = message.encode()[:2000]
    size, length = len(text), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return b"\x08\x03\x12" + bytes(length) + text


def _records(told: Iterable[_Told | Rejection], max_events: int) -> Decoded:
    decoded = Decoded()
    traces: dict[str, Trace] = {}
    for index, span in enumerate(told):
        if index >= max_events:
            raise Malformed(f"more than {max_events:,} spans in one request")
        try:
            if isinstance(span, Rejection):
                raise Invalid(span.path, span.message)
            found = list(_spans(span))
        except Invalid as invalid:
            decoded.rejections.append(Rejection(index, invalid.path, invalid.message))
            continue
        decoded.records += found
        decoded.indexes += [index] * len(found)
        if span.parent_id is None or span.trace_id not in traces:
            traces[span.trace_id] = _trace(span, traces.get(span.trace_id))
    for trace in traces.values():
        decoded.records.append(trace)
        decoded.indexes.append(-1)
    return decoded


def _trace(span: _Told, known: Trace | None) -> Trace:
    """What the root tells of the whole, and who sent it. Its times are its spans' times."""
    name = cut(sound(span.name), NAME_MAX_CHARS) if span.parent_id is None else ""
    metadata = {key: value for key, value in span.resource.items() if not key.startswith("telemetry.")}
    return Trace(span.trace_id, name or (known.name if known else ""), None, None, None, None, _encode(metadata))


def _spans(told: _Told) -> Iterator[Span]:
    attributes = told.attributes
    session_id = session_of(attributes)
    if session_id is not None and len(session_id.encode()) > SESSION_MAX_BYTES:
        raise Invalid("attributes.session.id", f"longer than {SESSION_MAX_BYTES} bytes")
    name = cut(told.name, NAME_MAX_CHARS)
    is_ours = told.name.startswith("compact.")
    kind = cut(told.name, 100) if is_ours else kind_of(attributes)
    data, said = _ours(attributes) if is_ours else split(attributes)
    if told.message:
        data["status_message"] = told.message
    has_exception = False
    others = []
    for number, moment in enumerate(told.moments):
        if moment.name.startswith("compact."):
            yield _child(told, moment, number, session_id)
        elif moment.name == "exception":
            has_exception = True
            data["error"] = {key.removeprefix("exception."): value for key, value in moment.attributes.items()}
        else:
            others.append({"name": moment.name, **moment.attributes})
    if others:
        said["events"] = others
    encoded = _encode(data)
    yield Span(
        trace_id=told.trace_id,
        span_id=told.span_id,
        parent_id=told.parent_id,
        kind=kind,
        name=name or kind,
        status="error" if told.is_error or has_exception else "ok" if told.is_ok or told.ended_ns else "",
        started_us=_time(told.started_ns, "startTimeUnixNano"),
        ended_us=_time(told.ended_ns, "endTimeUnixNano"),
        data=encoded,
        payload=_encode(said) if said else None,
        session_id=session_id,
        facts=facts_of(kind, data),
        fields=data,
        said=said or None,
    )


def _child(told: _Told, moment: _Moment, number: int, session_id: str | None) -> Span:
    """A `compact.*` event on a span: an instant inside it, with an id that a replay makes again."""
    data, said = _ours(moment.attributes)
    at = _time(moment.time_ns, f"events[{number}].timeUnixNano")
    name = f"{told.trace_id}{told.span_id}{moment.name}{moment.time_ns}{number}".encode()
    kind = cut(moment.name, 100)
    encoded = _encode(data)
    return Span(
        trace_id=told.trace_id,
        span_id=hashlib.blake2b(name, digest_size=8).hexdigest(),
        parent_id=told.span_id,
        kind=kind,
        name=kind,
        status="error" if kind == "compact.error" else "ok",
        started_us=at,
        ended_us=at,
        data=encoded,
        payload=_encode(said) if said else None,
        session_id=session_of(moment.attributes) or session_id,
        facts=facts_of(kind, data),
        fields=data,
        said=said or None,
    )


def _ours(attributes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Our own properties, which OTLP can only carry flat: JSON in strings, and perhaps a prefix."""
    data = {key.removeprefix("compact."): parsed(value) for key, value in attributes.items()}
    payload = data.pop("payload", None)
    return data, payload if isinstance(payload, dict) else {} if payload is None else {"payload": payload}


def _time(nanoseconds: int, path: str) -> int | None:
    if nanoseconds == 0:
        return None
    found = nanoseconds // 1000
    if not 0 < found < _LAST_US:
        raise Invalid(path, "is not a time in nanoseconds since 1970")
    return found - _EPOCH_US


def _walk_protobuf(request: Any) -> Iterator[_Told | Rejection]:
    for of_resource in request.resource_spans:
        resource = _attributes(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                try:
                    yield _from_message(span, resource)
                except Invalid as invalid:
                    yield Rejection(0, invalid.path, invalid.message)


def _from_message(span: Any, resource: dict[str, Any]) -> _Told:
    if len(span.trace_id) != 16 or not any(span.trace_id):
        raise Invalid("traceId", "expected 16 bytes that are not all zero")
    if len(span.span_id) != 8 or not any(span.span_id):
        raise Invalid("spanId", "expected 8 bytes that are not all zero")
    status = span.status
    return _Told(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex() if any(span.parent_span_id) else None,
        name=sound(span.name),
        started_ns=span.start_time_unix_nano,
        ended_ns=span.end_time_unix_nano,
        attributes=_attributes(span.attributes),
        moments=[
            _Moment(sound(event.name), event.time_unix_nano, _attributes(event.attributes)) for event in span.events
        ],
        is_error=status.code == 2,
        is_ok=status.code == 1,
        message=sound(status.message),
        resource=resource,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {sound(pair.key): _value(pair.value, _MAX_DEPTH) for pair in pairs}


def _value(value: Any, depth: int) -> Any:
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return sound(value.string_value)
    if kind in {"int_value", "bool_value"}:
        return getattr(value, kind)
    if kind == "double_value":
        return sound(value.double_value)
    if kind is None or depth == 0:
        return None
    if kind == "array_value":
        return [_value(item, depth - 1) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {sound(pair.key): _value(pair.value, depth - 1) for pair in value.kvlist_value.values}
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    return None


class _JsonValue(msgspec.Struct, rename="camel"):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: str | int | None = None
    double_value: float | str | None = None
    array_value: _JsonArray | None = None
    kvlist_value: _JsonPairs | None = None
    bytes_value: str | None = None


class _JsonArray(msgspec.Struct):
    values: list[_JsonValue] = []


class _JsonPair(msgspec.Struct):
    key: str
    value: _JsonValue | None = None


class _JsonPairs(msgspec.Struct):
    values: list[_JsonPair] = []


class _JsonEvent(msgspec.Struct, rename="camel"):
    name: str = ""
    time_unix_nano: str | int = 0
    attributes: list[_JsonPair] = []


class _JsonStatus(msgspec.Struct):
    code: int | str = 0
    message: str = ""


class _JsonSpan(msgspec.Struct, rename="camel"):
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str | None = None
    name: str = ""
    start_time_unix_nano: str | int = 0
    end_time_unix_nano: str | int = 0
    attributes: list[_JsonPair] = []
    events: list[_JsonEvent] = []
    status: _JsonStatus | None = None


class _JsonScope(msgspec.Struct):
    spans: list[_JsonSpan] = []


class _JsonResource(msgspec.Struct):
    attributes: list[_JsonPair] = []


class _JsonResourceSpans(msgspec.Struct, rename="camel"):
    resource: _JsonResource | None = None
    scope_spans: list[_JsonScope] = []


class _JsonRequest(msgspec.Struct, rename="camel"):
    resource_spans: list[_JsonResourceSpans] = []


_decode_json = msgspec.json.Decoder(_JsonRequest).decode


def _walk_json(request: _JsonRequest) -> Iterator[_Told | Rejection]:
    for of_resource in request.resource_spans:
        resource = _json_attributes(of_resource.resource.attributes) if of_resource.resource else {}
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                try:
                    yield _from_json_span(span, resource)
                except Invalid as invalid:
                    yield Rejection(0, invalid.path, invalid.message)


def _from_json_span(span: _JsonSpan, resource: dict[str, Any]) -> _Told:
    status = span.status or _JsonStatus()
    parent = span.parent_span_id
    return _Told(
        trace_id=_hex(span.trace_id, 16, "traceId"),
        span_id=_hex(span.span_id, 8, "spanId"),
        parent_id=_hex(parent, 8, "parentSpanId") if parent and parent.strip("0") else None,
        name=span.name,
        started_ns=_whole(span.start_time_unix_nano, "startTimeUnixNano"),
        ended_ns=_whole(span.end_time_unix_nano, "endTimeUnixNano"),
        attributes=_json_attributes(span.attributes),
        moments=[
            _Moment(event.name, _whole(event.time_unix_nano, "events.timeUnixNano"), _json_attributes(event.attributes))
            for event in span.events
        ],
        is_error=status.code in {2, "2", "STATUS_CODE_ERROR"},
        is_ok=status.code in {1, "1", "STATUS_CODE_OK"},
        message=status.message,
        resource=resource,
    )


def _hex(text: str, size: int, path: str) -> str:
    if len(text) == 2 * size:
        try:
            found = bytes.fromhex(text)
        except ValueError:
            raise Invalid(path, "expected hexadecimal digits") from None
        if any(found):
            return found.hex()
    raise Invalid(path, f"expected {2 * size} hexadecimal digits that are not all zero")


def _whole(value: str | int, path: str) -> int:
    if isinstance(value, int):
        return value
    if not value.isdigit() or len(value) > 20:
        raise Invalid(path, "expected a whole number")
    return int(value)


def _json_attributes(pairs: list[_JsonPair]) -> dict[str, Any]:
    return {pair.key: _json_value(pair.value, _MAX_DEPTH) for pair in pairs}


def _json_value(value: _JsonValue | None, depth: int) -> Any:
    if value is None or depth == 0:
        return None
    if value.string_value is not None:
        return value.string_value
    if value.int_value is not None:
        number = str(value.int_value)
        return int(number) if number.lstrip("-").isdigit() and len(number) <= 20 else number
    if value.array_value is not None:
        return [_json_value(item, depth - 1) for item in value.array_value.values]
    if value.kvlist_value is not None:
        return {pair.key: _json_value(pair.value, depth - 1) for pair in value.kvlist_value.values}
    for simple in (value.bool_value, value.double_value, value.bytes_value):
        if simple is not None:
            return simple
    return None
