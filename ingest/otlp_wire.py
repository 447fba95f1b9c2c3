"""OTLP as it is written: protobuf and JSON, read into one form.

Messages are walked by hand, which is many times quicker than turning one form into the other. A span that cannot be
read becomes a rejection in its place, whatever is wrong with it; a body that is no OTLP at all is refused.
"""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from ingest.decode import elements, end_of, is_plain, member, mended, path_of, sound
from ingest.errors import Malformed
from ingest.events import Rejection
from ingest.schema import Invalid

_MAX_DEPTH = 64
_ERROR_CODES = {2, "2", "STATUS_CODE_ERROR"}
_OK_CODES = {1, "1", "STATUS_CODE_OK"}
# Sizes of protobuf's wire types for numbers of fixed length.
_FIXED_BYTES = {1: 8, 5: 4}
_NO_TRACE, _NO_SPAN = bytes(16), bytes(8)
_NO_SPAN_BASE64 = base64.b64encode(_NO_SPAN).decode()
_UNREADABLE = b'{"resource":"could not be read"}'
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_encode = msgspec.json.Encoder().encode
_Faults = (msgspec.MsgspecError, UnicodeError, RecursionError)


class Moment(msgspec.Struct):
    """One event on a span."""

    name: str
    time_ns: int
    attributes: dict[str, Any]


class Told(msgspec.Struct):
    """A span as OTLP tells it, whichever way it was written. Its texts may hold NUL, which Postgres does not take."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    started_ns: int
    ended_ns: int
    attributes: dict[str, Any]
    moments: list[Moment]
    is_error: bool
    is_ok: bool
    message: str
    sender: bytes  # what the resource says of it, as JSON


def read_protobuf(body: bytes) -> Iterator[Told | Rejection]:
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except (DecodeError, RecursionError):
        # One span too deep, or with half a character, and the parser refuses them all.
        return iter(list(_taken_apart(body)))
    return _walk_protobuf(request)


def read_json(body: bytes) -> Iterator[Told | Rejection]:
    if _SNAKE_CASE.search(body):
        body = _in_camel_case(body)
    try:
        if is_plain(body):
            return _walk_json(_decode_json(body))
    except msgspec.ValidationError as error:
        raise Malformed(f"{_NOT_JSON}: {error}") from None
    except _Faults:
        # One span too deep, or with a number that is none, and the parser refuses them all.
        pass
    return iter(list(_json_taken_apart(body)))


def _walk_protobuf(request: Any) -> Iterator[Told | Rejection]:
    for of_resource in request.resource_spans:
        sender = _sender(_attributes(of_resource.resource.attributes))
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield _read(_from_message, span, sender)


def _sender(resource: dict[str, Any]) -> bytes:
    return _encode({key: value for key, value in sound(resource).items() if not key.startswith("telemetry.")})


def _read(read: Callable[[Any, bytes], Told], span: Any, sender: bytes) -> Told | Rejection:
    try:
        return read(span, sender)
    except Invalid as invalid:
        return Rejection(0, invalid.path, invalid.message)


def _taken_apart(body: bytes) -> Iterator[Told | Rejection]:
    """The spans of a body that cannot be parsed as a whole, each by itself."""
    try:
        for of_resource in _parts(body, 1):
            resource: dict[str, Any] = {}
            try:
                for part in _parts(of_resource, 1):
                    resource |= _attributes(Resource.FromString(part).attributes)
                sender = _sender(resource)
            except (DecodeError, RecursionError):
                sender = _UNREADABLE
            for of_scope in _parts(of_resource, 2):
                for part in _parts(of_scope, 2):
                    yield _read(_from_part, part, sender)
    except (DecodeError, RecursionError, IndexError):
        raise Malformed("the body is not an OTLP ExportTraceServiceRequest in protobuf") from None


def _from_part(part: bytes, sender: bytes) -> Told:
    try:
        span = SpanMessage.FromString(part)
    except (DecodeError, RecursionError):
        raise Invalid("", "not a span in protobuf: nested too deeply, or a text that is not UTF-8") from None
    return _from_message(span, sender)


def _parts(message: bytes, wanted: int) -> Iterator[bytes]:
    """The fields numbered `wanted` of a message, each of which is a message too."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == 2:
            size, at = _varint(message, at)
            end = at + size
        elif kind == 0:
            _, end = _varint(message, at)
        elif kind in _FIXED_BYTES:
            end = at + _FIXED_BYTES[kind]
        else:
            raise DecodeError
        if end > len(message):
            raise DecodeError
        if kind == 2 and tag >> 3 == wanted:
            yield message[at:end]
        at = end


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise DecodeError


def _from_message(span: Any, sender: bytes) -> Told:
    trace_id, span_id, parent_id, status = span.trace_id, span.span_id, span.parent_span_id, span.status
    if len(trace_id) != 16 or trace_id == _NO_TRACE:
        raise Invalid("traceId", "expected 16 bytes that are not all zero")
    if len(span_id) != 8 or span_id == _NO_SPAN:
        raise Invalid("spanId", "expected 8 bytes that are not all zero")
    return Told(
        trace_id=trace_id.hex(),
        span_id=span_id.hex(),
        parent_id=parent_id.hex() if parent_id.strip(b"\0") else None,
        name=sound(span.name),
        started_ns=span.start_time_unix_nano,
        ended_ns=span.end_time_unix_nano,
        attributes=_attributes(span.attributes),
        moments=[Moment(sound(one.name), one.time_unix_nano, _attributes(one.attributes)) for one in span.events],
        is_error=status.code == 2,
        is_ok=status.code == 1,
        message=status.message,
        sender=sender,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value, _MAX_DEPTH) for pair in pairs}


def _value(value: Any, depth: int) -> Any:
    # Of the fields only one is set, and texts and numbers are most of them; asking which it is costs more.
    if simple := value.string_value or value.int_value:
        return simple
    kind = value.WhichOneof("value")
    if kind in {"string_value", "int_value", "bool_value"}:
        return getattr(value, kind)
    if kind == "double_value":
        return sound(value.double_value)
    if kind is None or depth == 0:
        return None
    if kind == "array_value":
        return [_value(item, depth - 1) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: _value(pair.value, depth - 1) for pair in value.kvlist_value.values}
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    return None


class _JsonValue(msgspec.Struct, rename="camel"):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: str | int | float | None = None
    double_value: float | str | None = None
    array_value: _JsonArray | None = None
    kvlist_value: _JsonPairs | None = None
    bytes_value: str | None = None


# In protobuf's JSON null stands for any field's default, and 1e18 is a whole number.
_Whole = str | int | float | None


class _JsonArray(msgspec.Struct):
    values: list[_JsonValue | None] | None = None


class _JsonPair(msgspec.Struct):
    key: str
    value: _JsonValue | None = None


class _JsonPairs(msgspec.Struct):
    values: list[_JsonPair] | None = None


class _JsonEvent(msgspec.Struct, rename="camel"):
    name: str | None = None
    time_unix_nano: _Whole = None
    attributes: list[_JsonPair] | None = None


class _JsonStatus(msgspec.Struct):
    code: int | str | None = None
    message: str | None = None


class _JsonSpan(msgspec.Struct, rename="camel"):
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str | None = None
    name: str | None = None
    start_time_unix_nano: _Whole = None
    end_time_unix_nano: _Whole = None
    attributes: list[_JsonPair] | None = None
    events: list[_JsonEvent] | None = None
    status: _JsonStatus | None = None


class _JsonScope(msgspec.Struct):
    # Each span is read by itself, so that a bad one costs its neighbours nothing.
    spans: list[msgspec.Raw] | None = None


class _JsonResource(msgspec.Struct):
    attributes: list[_JsonPair] | None = None


class _JsonResourceSpans(msgspec.Struct, rename="camel"):
    resource: msgspec.Raw = msgspec.Raw(b"null")
    scope_spans: list[_JsonScope] | None = None


class _JsonRequest(msgspec.Struct, rename="camel"):
    resource_spans: list[_JsonResourceSpans] | None = None


_decode_json = msgspec.json.Decoder(_JsonRequest).decode
_decode_span = msgspec.json.Decoder(_JsonSpan).decode
_decode_resource = msgspec.json.Decoder(_JsonResource | None).decode
_decode_any = msgspec.json.Decoder().decode
_NOT_JSON = "the body is not an OTLP ExportTraceServiceRequest in JSON"


# Protobuf's readers take the original names of fields too; ignored, spans would be lost without a word.
_SNAKE_CASE = re.compile(rb'"(?:resource_spans|scope_spans|trace_id|span_id)"\s*:')


def _in_camel_case(body: bytes) -> bytes:
    try:
        return _encode(_renamed(_decode_any(mended(body))))
    except (*_Faults, Invalid):
        raise Malformed(f"{_NOT_JSON}: its names are not in camelCase, and it cannot be read whole") from None


def _renamed(value: Any) -> Any:
    # Attributes are lists of pairs, so every name in the tree is a field's.
    if isinstance(value, dict):
        return {_camel(key): _renamed(item) for key, item in value.items()}
    return [_renamed(item) for item in value] if isinstance(value, list) else value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _walk_json(request: _JsonRequest) -> Iterator[Told | Rejection]:
    for of_resource in request.resource_spans or ():
        sender = _sender_json(bytes(of_resource.resource))
        for of_scope in of_resource.scope_spans or ():
            for raw in of_scope.spans or ():
                yield _read(_plain_from_json, raw, sender)


def _json_taken_apart(body: bytes) -> Iterator[Told | Rejection]:
    """The spans of a body that cannot be parsed as a whole, each by itself."""
    body = body.strip()
    resources = member(body, "resourceSpans") if end_of(body) == len(body) else None
    if resources is None:
        raise Malformed(_NOT_JSON)
    for of_resource in elements(resources):
        sender = _sender_json(member(of_resource, "resource", b"{") or b"null")
        for of_scope in elements(member(of_resource, "scopeSpans") or b"[]"):
            for raw in elements(member(of_scope, "spans") or b"[]"):
                yield _read(_mended_from_json, raw, sender)


def _plain_from_json(raw: msgspec.Raw, sender: bytes) -> Told:
    try:
        return _from_json(raw, sender)
    except (msgspec.DecodeError, UnicodeError):
        # Half a surrogate pair, which is only found when a text is read.
        return _mended_from_json(bytes(raw), sender)


def _mended_from_json(raw: bytes, sender: bytes) -> Told:
    return _from_json(mended(raw), sender)


def _sender_json(raw: bytes) -> bytes:
    try:
        resource = _decode_resource(mended(raw))
    except (*_Faults, Invalid):
        # Who sent them is worth less than the spans themselves.
        return _UNREADABLE
    return _sender(_json_attributes(resource.attributes) if resource else {})


def _from_json(raw: bytes | msgspec.Raw, sender: bytes) -> Told:
    try:
        span = _decode_span(raw)
    except msgspec.ValidationError as error:
        raise Invalid(*path_of(error)) from None
    except RecursionError:
        raise Invalid("", "nested too deeply") from None
    status = span.status or _JsonStatus()
    return Told(
        trace_id=_identifier(span.trace_id, 16, "traceId"),
        span_id=_identifier(span.span_id, 8, "spanId"),
        parent_id=_parent(span.parent_span_id),
        name=span.name or "",
        started_ns=_whole(span.start_time_unix_nano, "startTimeUnixNano"),
        ended_ns=_whole(span.end_time_unix_nano, "endTimeUnixNano"),
        attributes=_json_attributes(span.attributes),
        moments=[
            Moment(
                event.name or "",
                _whole(event.time_unix_nano, "events.timeUnixNano"),
                _json_attributes(event.attributes),
            )
            for event in span.events or ()
        ],
        is_error=status.code in _ERROR_CODES,
        is_ok=status.code in _OK_CODES,
        message=status.message or "",
        sender=sender,
    )


def _identifier(text: str, size: int, path: str) -> str:
    found = b""
    with contextlib.suppress(ValueError):
        # Protobuf's own JSON writes bytes in base64; the lengths of the two tell them apart.
        found = bytes.fromhex(text) if len(text) == 2 * size else base64.b64decode(text, validate=True)
    if len(found) != size or not any(found):
        raise Invalid(path, f"expected {2 * size} hexadecimal digits that are not all zero")
    return found.hex()


def _parent(text: str | None) -> str | None:
    # No parent is written as nothing, or as zeros.
    return _identifier(text, 8, "parentSpanId") if text and text.strip("0") and text != _NO_SPAN_BASE64 else None


def _whole(value: _Whole, path: str) -> int:
    if value is None or isinstance(value, int):
        return value or 0
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, float) or not (value.isascii() and value.isdigit()) or len(value) > 20:
        raise Invalid(path, "expected a whole number")
    return int(value)


def _json_attributes(pairs: list[_JsonPair] | None) -> dict[str, Any]:
    return {pair.key: _json_value(pair.value, _MAX_DEPTH) for pair in pairs or ()}


def _json_value(value: _JsonValue | None, depth: int) -> Any:
    if value is None or depth == 0:
        return None
    if value.string_value is not None:
        return value.string_value
    if value.int_value is not None:
        number = str(value.int_value)
        return int(number) if _INTEGER.fullmatch(number) else number
    if value.array_value is not None:
        return [_json_value(item, depth - 1) for item in value.array_value.values or ()]
    if value.kvlist_value is not None:
        return {pair.key: _json_value(pair.value, depth - 1) for pair in value.kvlist_value.values or ()}
    for simple in (value.bool_value, value.double_value, value.bytes_value):
        if simple is not None:
            return simple
    return None
