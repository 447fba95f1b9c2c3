"""OTLP in protobuf: spans as `otlp_wire.Told`, one by one where the whole cannot be parsed."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from ingest.decoding.json_body import sound
from ingest.decoding.otlp.span_data import (
    MAX_DEPTH,
    NO_SPAN,
    TOO_DEEP,
    UNREADABLE,
    Moment,
    Told,
    describe_sender,
    read_one,
)
from ingest.decoding.records import Rejection
from ingest.decoding.schema import Invalid
from ingest.http.errors import Malformed

# Sizes of protobuf's wire types for numbers of fixed length.
_FIXED_BYTES = {1: 8, 5: 4}
_NO_TRACE = bytes(16)


def read_protobuf(body: bytes) -> Iterator[Told | Rejection]:
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except (DecodeError, RecursionError):
        # One span too deep, or with half a character, and the parser refuses them all.
        return iter(list(_taken_apart(body)))
    return _walk_protobuf(request)


def _walk_protobuf(request: Any) -> Iterator[Told | Rejection]:
    for of_resource in request.resource_spans:
        sender = describe_sender(_attributes(of_resource.resource.attributes))
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield read_one(_from_message, span, sender)


def _taken_apart(body: bytes) -> Iterator[Told | Rejection]:
    """The spans of a body that cannot be parsed as a whole, each by itself."""
    try:
        for of_resource in _parts(body, 1):
            resource: dict[str, Any] = {}
            try:
                for part in _parts(of_resource, 1):
                    resource |= _attributes(Resource.FromString(part).attributes)
                sender = describe_sender(resource)
            except (DecodeError, RecursionError):
                sender = UNREADABLE
            for of_scope in _parts(of_resource, 2):
                for part in _parts(of_scope, 2):
                    yield read_one(_from_part, part, sender)
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
    if len(span_id) != 8 or span_id == NO_SPAN:
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
    return {pair.key: _value(pair.value, MAX_DEPTH) for pair in pairs}


def _value(value: Any, depth: int) -> Any:
    # Of the fields only one is set, and texts and numbers are most of them; asking which it is costs more.
    if simple := value.string_value or value.int_value:
        return simple
    kind = value.WhichOneof("value")
    if kind in {"string_value", "int_value", "bool_value"}:
        return getattr(value, kind)
    if kind == "double_value":
        return sound(value.double_value)
    if kind is None:
        return None
    if depth == 0:
        return TOO_DEEP
    if kind == "array_value":
        return [_value(item, depth - 1) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: _value(pair.value, depth - 1) for pair in value.kvlist_value.values}
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    return None
