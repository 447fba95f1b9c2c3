"""OTLP in JSON: spans as `otlp_wire.Told`, one by one where the whole cannot be parsed."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ingest.decoding.json_body import elements, end_of, is_plain, member, mended, path_of
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

_ERROR_CODES = {2, "2", "STATUS_CODE_ERROR"}
_OK_CODES = {1, "1", "STATUS_CODE_OK"}
_NO_SPAN_BASE64 = base64.b64encode(NO_SPAN).decode()
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_encode = msgspec.json.Encoder().encode
_Faults = (msgspec.MsgspecError, UnicodeError, RecursionError)


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
                yield read_one(_plain_from_json, raw, sender)


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
                yield read_one(_mended_from_json, raw, sender)


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
        return UNREADABLE
    return describe_sender(_json_attributes(resource.attributes) if resource else {})


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
    return {pair.key: _json_value(pair.value, MAX_DEPTH) for pair in pairs or ()}


def _json_value(value: _JsonValue | None, depth: int) -> Any:
    if value is None:
        return None
    if depth == 0:
        return TOO_DEEP
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
