"""OTLP as it is written: protobuf and JSON, read into one form.

Messages are walked by hand, which is many times quicker than turning one form into the other. A span that cannot be
read becomes a rejection in its place; a body that is no OTLP at all is refused.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ingest.decode import mended, sound
from ingest.errors import Malformed
from ingest.events import Rejection
from ingest.schema import Invalid

_MAX_DEPTH = 64
_ERROR_CODES = {2, "2", "STATUS_CODE_ERROR"}
_OK_CODES = {1, "1", "STATUS_CODE_OK"}


class Moment(msgspec.Struct):
    """One event on a span."""

    name: str
    time_ns: int
    attributes: dict[str, Any]


class Told(msgspec.Struct):
    """A span as OTLP tells it, whichever way it was written."""

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
    resource: dict[str, Any]


def read_protobuf(body: bytes) -> Iterator[Told | Rejection]:
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except (DecodeError, RecursionError):
        raise Malformed("the body is not an OTLP ExportTraceServiceRequest in protobuf") from None
    return _walk_protobuf(request)


def read_json(body: bytes) -> Iterator[Told | Rejection]:
    try:
        return _walk_json(_decode_json(mended(body)))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed(f"the body is not an OTLP ExportTraceServiceRequest in JSON: {error}") from None
    except Invalid as error:
        raise Malformed(error.message) from None


def _walk_protobuf(request: Any) -> Iterator[Told | Rejection]:
    for of_resource in request.resource_spans:
        resource = _attributes(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                try:
                    yield _from_message(span, resource)
                except Invalid as invalid:
                    yield Rejection(0, invalid.path, invalid.message)


def _from_message(span: Any, resource: dict[str, Any]) -> Told:
    if len(span.trace_id) != 16 or not any(span.trace_id):
        raise Invalid("traceId", "expected 16 bytes that are not all zero")
    if len(span.span_id) != 8 or not any(span.span_id):
        raise Invalid("spanId", "expected 8 bytes that are not all zero")
    status = span.status
    return Told(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex() if any(span.parent_span_id) else None,
        name=sound(span.name),
        started_ns=span.start_time_unix_nano,
        ended_ns=span.end_time_unix_nano,
        attributes=_attributes(span.attributes),
        moments=[
            Moment(sound(event.name), event.time_unix_nano, _attributes(event.attributes)) for event in span.events
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


def _walk_json(request: _JsonRequest) -> Iterator[Told | Rejection]:
    for of_resource in request.resource_spans:
        resource = _json_attributes(of_resource.resource.attributes) if of_resource.resource else {}
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                try:
                    yield _from_json_span(span, resource)
                except Invalid as invalid:
                    yield Rejection(0, invalid.path, invalid.message)


def _from_json_span(span: _JsonSpan, resource: dict[str, Any]) -> Told:
    status = span.status or _JsonStatus()
    parent = span.parent_span_id
    return Told(
        trace_id=_hex(span.trace_id, 16, "traceId"),
        span_id=_hex(span.span_id, 8, "spanId"),
        parent_id=_hex(parent, 8, "parentSpanId") if parent and parent.strip("0") else None,
        name=span.name,
        started_ns=_whole(span.start_time_unix_nano, "startTimeUnixNano"),
        ended_ns=_whole(span.end_time_unix_nano, "endTimeUnixNano"),
        attributes=_json_attributes(span.attributes),
        moments=[
            Moment(event.name, _whole(event.time_unix_nano, "events.timeUnixNano"), _json_attributes(event.attributes))
            for event in span.events
        ],
        is_error=status.code in _ERROR_CODES,
        is_ok=status.code in _OK_CODES,
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
