"""Read OTLP spans from protobuf."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from ingest.decoding.lenient_json import sanitize
from ingest.decoding.otlp.span_data import (
    MAX_DEPTH,
    TOO_DEEP,
    UNREADABLE_RESOURCE,
    ZERO_SPAN_ID,
    OtlpEvent,
    OtlpSpan,
    clean_resource,
    read_span,
)
from ingest.decoding.otlp.wire_messages import Parts
from ingest.decoding.schema import InvalidEvent
from ingest.errors import Malformed

_ZERO_TRACE_ID = bytes(16)
_PARSE_ERRORS = (DecodeError, RecursionError)


def read_protobuf(body: bytes) -> Iterator[OtlpSpan | InvalidEvent]:
    """Yield the spans of an ExportTraceServiceRequest."""
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except _PARSE_ERRORS:
        # The parser rejects the whole request for one span that is too deep or has invalid UTF-8.
        return iter(list(_read_parts(body)))
    return _read_request(request)


def _read_request(request: Any) -> Iterator[OtlpSpan | InvalidEvent]:
    for resource_spans in request.resource_spans:
        resource = clean_resource(_attributes(resource_spans.resource.attributes))
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                yield read_span(_from_message, span, resource)


def _read_parts(body: bytes) -> Iterator[OtlpSpan | InvalidEvent]:
    """Yield the spans of a request that cannot be parsed as a whole, parsing each span by itself."""
    try:
        for resource_spans in map(Parts.FromString, Parts.FromString(body).first):
            resource = _read_resource(resource_spans.first)
            for scope_spans in map(Parts.FromString, resource_spans.second):
                for span in scope_spans.second:
                    yield read_span(_from_bytes, span, resource)
    except _PARSE_ERRORS:
        raise Malformed("The body is not an OTLP ExportTraceServiceRequest in protobuf.") from None


def _read_resource(parts: list[bytes]) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    try:
        for part in parts:
            attributes |= _attributes(Resource.FromString(part).attributes)
    except _PARSE_ERRORS:
        return UNREADABLE_RESOURCE
    return clean_resource(attributes)


def _from_bytes(raw: bytes, resource: dict[str, Any]) -> OtlpSpan:
    try:
        span = SpanMessage.FromString(raw)
    except _PARSE_ERRORS:
        raise InvalidEvent("", "not a valid protobuf span: nested too deeply, or text that is not UTF-8") from None
    return _from_message(span, resource)


def _from_message(span: Any, resource: dict[str, Any]) -> OtlpSpan:
    trace_id, span_id, parent_id, status = span.trace_id, span.span_id, span.parent_span_id, span.status
    if len(trace_id) != 16 or trace_id == _ZERO_TRACE_ID:
        raise InvalidEvent("traceId", "expected 16 bytes that are not all zero")
    if len(span_id) != 8 or span_id == ZERO_SPAN_ID:
        raise InvalidEvent("spanId", "expected 8 bytes that are not all zero")
    return OtlpSpan(
        trace_id=trace_id.hex(),
        span_id=span_id.hex(),
        parent_id=parent_id.hex() if parent_id.strip(b"\0") else None,
        name=sanitize(span.name),
        started_ns=span.start_time_unix_nano,
        ended_ns=span.end_time_unix_nano,
        attributes=_attributes(span.attributes),
        events=[
            OtlpEvent(sanitize(event.name), event.time_unix_nano, _attributes(event.attributes))
            for event in span.events
        ],
        is_error=status.code == 2,
        is_ok=status.code == 1,
        message=sanitize(status.message),
        resource=resource,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    attributes = {pair.key: _value(pair.value, MAX_DEPTH) for pair in pairs}
    return sanitize(attributes) if "\0" in "".join(attributes) else attributes


def _value(value: Any, depth: int) -> Any:
    # Most values are texts or integers. Reading both fields is faster than asking which one is set.
    if text := value.string_value:
        return text if "\0" not in text else sanitize(text)
    if number := value.int_value:
        return number
    kind = value.WhichOneof("value")
    if kind in {"string_value", "int_value", "bool_value", "double_value"}:
        return sanitize(getattr(value, kind))
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    if depth == 0 and kind is not None:
        return TOO_DEEP
    if kind == "array_value":
        return [_value(item, depth - 1) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {sanitize(pair.key): _value(pair.value, depth - 1) for pair in value.kvlist_value.values}
    return None
