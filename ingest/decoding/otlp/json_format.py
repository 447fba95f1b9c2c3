"""Read OTLP spans from JSON."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from ingest.decoding import lenient_json
from ingest.decoding.lenient_json import STRICT_ERRORS
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
from ingest.decoding.schema import InvalidEvent, invalid_event
from ingest.errors import Malformed

T = TypeVar("T")

_ERROR_CODES = {2, "2", "STATUS_CODE_ERROR"}
_OK_CODES = {1, "1", "STATUS_CODE_OK"}
_ZERO_SPAN_ID_BASE64 = base64.b64encode(ZERO_SPAN_ID).decode()
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_NOT_A_REQUEST = "The body is not an OTLP ExportTraceServiceRequest in JSON"
# In protobuf's JSON, null is any field's default value, and integers may be strings or have an exponent.
_Integer = str | int | float | None


class _Value(msgspec.Struct, rename="camel"):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: str | int | float | None = None
    double_value: float | str | None = None
    array_value: _Array | None = None
    kvlist_value: _Pairs | None = None
    bytes_value: str | None = None


class _Array(msgspec.Struct):
    values: list[_Value | None] | None = None


class _Pair(msgspec.Struct):
    key: str
    value: _Value | None = None


class _Pairs(msgspec.Struct):
    values: list[_Pair] | None = None


class _Event(msgspec.Struct, rename="camel"):
    name: str | None = None
    time_unix_nano: _Integer = None
    attributes: list[_Pair] | None = None


class _Status(msgspec.Struct):
    code: int | str | None = None
    message: str | None = None


class _Span(msgspec.Struct, rename="camel"):
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str | None = None
    name: str | None = None
    start_time_unix_nano: _Integer = None
    end_time_unix_nano: _Integer = None
    attributes: list[_Pair] | None = None
    events: list[_Event] | None = None
    status: _Status | None = None


class _Resource(msgspec.Struct):
    attributes: list[_Pair] | None = None


# Spans and resources stay undecoded (`msgspec.Raw`, or `Any` for parsed JSON) so that each is validated by itself and
# an invalid one does not affect the others.
class _ScopeSpans(msgspec.Struct, Generic[T]):
    spans: list[T] | None = None


class _ResourceSpans(msgspec.Struct, Generic[T], rename="camel"):
    # Not `T | None`, which msgspec does not support for `Raw`.
    resource: T = None  # type: ignore[assignment]
    scope_spans: list[_ScopeSpans[T]] | None = None


class _Request(msgspec.Struct, Generic[T], rename="camel"):
    resource_spans: list[_ResourceSpans[T]] | None = None


_decode_request = msgspec.json.Decoder(_Request[msgspec.Raw]).decode
_decode_span = msgspec.json.Decoder(_Span).decode
_decode_resource = msgspec.json.Decoder(_Resource | None).decode

# Protobuf's JSON parsers also accept the original field names. Ignoring them would lose spans silently.
_SNAKE_CASE = re.compile(rb'"(?:resource_spans|scope_spans|trace_id|span_id)"\s*:')


def read_json(body: bytes) -> Iterator[OtlpSpan | InvalidEvent]:
    """Yield the spans of an ExportTraceServiceRequest."""
    is_snake_case = _SNAKE_CASE.search(body) is not None
    if not is_snake_case and lenient_json.is_plain(body):
        try:
            return _read_request(_decode_request(body), _resource_from_raw, _span_from_raw)
        except msgspec.ValidationError as error:
            raise Malformed(f"{_NOT_A_REQUEST}: {error}") from None
        except STRICT_ERRORS:
            # The strict parser rejects the whole request for one span that is too deep or has an invalid number.
            pass
    return _read_request(_parse_request(body, is_snake_case=is_snake_case), _resource_from_value, _span_from_value)


def _parse_request(body: bytes, *, is_snake_case: bool) -> _Request[Any]:
    try:
        value = lenient_json.parse(body)
        request = msgspec.convert(_with_camel_case(value) if is_snake_case else value, _Request[Any])
    except msgspec.ValidationError as error:
        raise Malformed(f"{_NOT_A_REQUEST}: {error}") from None
    except (ValueError, RecursionError):
        raise Malformed(f"{_NOT_A_REQUEST}.") from None
    if request.resource_spans is None:
        raise Malformed(f"{_NOT_A_REQUEST}: it has no resourceSpans.")
    return request


def _with_camel_case(value: Any) -> Any:
    # Attributes are lists of pairs, so every key is a field name.
    if isinstance(value, dict):
        return {_camel_case(key): _with_camel_case(item) for key, item in value.items()}
    return [_with_camel_case(item) for item in value] if isinstance(value, list) else value


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _read_request(
    request: _Request[T],
    read_resource: Callable[[T], _Resource | None],
    read: Callable[[T, dict[str, Any]], OtlpSpan],
) -> Iterator[OtlpSpan | InvalidEvent]:
    for resource_spans in request.resource_spans or ():
        resource = _resource(resource_spans.resource, read_resource)
        for scope_spans in resource_spans.scope_spans or ():
            for span in scope_spans.spans or ():
                yield read_span(read, span, resource)


def _resource(source: T | None, read: Callable[[T], _Resource | None]) -> dict[str, Any]:
    try:
        resource = None if source is None else read(source)
    except (*STRICT_ERRORS, ValueError):
        return UNREADABLE_RESOURCE
    return clean_resource(_attributes(resource.attributes) if resource else {})


def _resource_from_raw(raw: msgspec.Raw) -> _Resource | None:
    try:
        resource: _Resource | None = _decode_resource(raw)
    except STRICT_ERRORS:
        return _resource_from_value(lenient_json.parse(bytes(raw)))
    return resource


def _resource_from_value(value: Any) -> _Resource | None:
    return None if value is None else msgspec.convert(value, _Resource)


def _span_from_raw(raw: msgspec.Raw, resource: dict[str, Any]) -> OtlpSpan:
    try:
        return _to_otlp_span(_decode_span(raw), resource)
    except msgspec.ValidationError as error:
        raise invalid_event(error) from None
    except RecursionError:
        raise InvalidEvent("", "nested too deeply") from None
    except (msgspec.DecodeError, UnicodeError):
        # Invalid strings are detected only when they are decoded.
        return _span_from_value(_parse_span(bytes(raw)), resource)


def _parse_span(raw: bytes) -> Any:
    try:
        return lenient_json.parse(raw)
    except (ValueError, RecursionError):
        raise InvalidEvent("", "not valid JSON") from None


def _span_from_value(value: Any, resource: dict[str, Any]) -> OtlpSpan:
    try:
        span = msgspec.convert(value, _Span)
    except msgspec.ValidationError as error:
        raise invalid_event(error) from None
    return _to_otlp_span(span, resource)


def _to_otlp_span(span: _Span, resource: dict[str, Any]) -> OtlpSpan:
    status = span.status or _Status()
    return OtlpSpan(
        trace_id=_id(span.trace_id, 16, "traceId"),
        span_id=_id(span.span_id, 8, "spanId"),
        parent_id=_parent_id(span.parent_span_id),
        name=span.name or "",
        started_ns=_integer(span.start_time_unix_nano, "startTimeUnixNano"),
        ended_ns=_integer(span.end_time_unix_nano, "endTimeUnixNano"),
        attributes=_attributes(span.attributes),
        events=[
            OtlpEvent(
                event.name or "",
                _integer(event.time_unix_nano, "events.timeUnixNano"),
                _attributes(event.attributes),
            )
            for event in span.events or ()
        ],
        is_error=status.code in _ERROR_CODES,
        is_ok=status.code in _OK_CODES,
        message=status.message or "",
        resource=resource,
    )


def _id(text: str, size: int, path: str) -> str:
    raw = b""
    with contextlib.suppress(ValueError):
        # OTLP uses hexadecimal, protobuf's own JSON uses base64. The length distinguishes them.
        raw = bytes.fromhex(text) if len(text) == 2 * size else base64.b64decode(text, validate=True)
    if len(raw) != size or not any(raw):
        raise InvalidEvent(path, f"expected {2 * size} hexadecimal digits that are not all zero")
    return raw.hex()


def _parent_id(text: str | None) -> str | None:
    # A root span has an empty parent id, or one of zeros.
    if not text or not text.strip("0") or text == _ZERO_SPAN_ID_BASE64:
        return None
    return _id(text, 8, "parentSpanId")


def _integer(value: _Integer, path: str) -> int:
    if value is None or isinstance(value, int):
        return value or 0
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, float) or not (value.isascii() and value.isdigit()) or len(value) > 20:
        raise InvalidEvent(path, "expected an integer")
    return int(value)


def _attributes(pairs: list[_Pair] | None) -> dict[str, Any]:
    return {pair.key: _plain_value(pair.value, MAX_DEPTH) for pair in pairs or ()}


def _to_integer(text: str) -> int | str:
    return int(text) if _INTEGER.fullmatch(text) else text


def _first_known(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _plain_value(value: _Value | None, depth: int) -> Any:
    if value is None:
        return None
    if depth == 0:
        return TOO_DEEP
    if value.string_value is not None:
        return value.string_value
    if value.int_value is not None:
        return _to_integer(str(value.int_value))
    if value.array_value is not None:
        return [_plain_value(item, depth - 1) for item in value.array_value.values or ()]
    if value.kvlist_value is not None:
        return {pair.key: _plain_value(pair.value, depth - 1) for pair in value.kvlist_value.values or ()}
    return _first_known(value.bool_value, value.double_value, value.bytes_value)
