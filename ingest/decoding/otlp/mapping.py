"""OpenTelemetry's spans become ours.

A span that cannot be stored is counted and named in the partial success that the protocol has for it; its neighbours
are stored. `compact.*` events on a span become its children, with ids that a replay makes again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from ingest.decoding.json_body import Decoded, sound
from ingest.decoding.otlp.attributes import kind_of, parsed, session_of, split
from ingest.decoding.otlp.json_format import read_json
from ingest.decoding.otlp.protobuf_format import read_protobuf
from ingest.decoding.otlp.span_data import Moment, Told
from ingest.decoding.records import Rejection, Span, Trace
from ingest.decoding.schema import NAME_MAX_CHARS, SESSION_MAX_BYTES, Invalid, cut
from ingest.decoding.span_facts import facts_of
from ingest.http.errors import Refusal, TooLarge

# From the Unix epoch in nanoseconds to Postgres' in microseconds.
_EPOCH_US = 946_684_800_000_000
_LAST_US = 7_258_118_400_000_000  # the year 2200
# gRPC's codes: unimplemented, resource exhausted, unavailable, unauthenticated; all else is an invalid argument.
_CODES = {405: 12, 429: 8, 503: 14, 401: 16}
_encode = msgspec.json.Encoder().encode
# As it stands in encoded JSON.
_NUL = b"\\u0000"


def from_protobuf(body: bytes, *, max_events: int) -> Decoded:
    return _records(read_protobuf(body), max_events)


def from_json(body: bytes, *, max_events: int) -> Decoded:
    return _records(read_json(body), max_events)


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


def status(refusal: Refusal, *, is_json: bool) -> bytes:
    """A refusal as the protocol wants it: a google.rpc.Status with a code and a message."""
    code = _CODES.get(refusal.status, 3)
    if is_json:
        return _encode({"code": code, "message": refusal.message})
    text = refusal.message.encode()[:2000]
    size, length = len(text), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return bytes((8, code, 0x12)) + bytes(length) + text


def _records(told: Iterable[Told | Rejection], max_events: int) -> Decoded:
    decoded = Decoded()
    traces: dict[str, Trace] = {}
    for index, span in enumerate(told):
        if index >= max_events:
            raise TooLarge(f"more than {max_events:,} spans in one request")
        try:
            if isinstance(span, Rejection):
                raise Invalid(span.path, span.message)
            found = _spans(span)
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


def _trace(span: Told, known: Trace | None) -> Trace:
    """What the root tells of the whole, and who sent it. Its times are its spans' times."""
    name = cut(span.name, NAME_MAX_CHARS) if span.parent_id is None else ""
    return Trace(span.trace_id, name or (known.name if known else ""), None, None, None, None, span.sender)


def _spans(told: Told) -> list[Span]:
    found = list(_converted(told))
    for span in found:
        if _NUL in span.data or (span.payload is not None and _NUL in span.payload):
            told.attributes, told.message = sound(told.attributes), sound(told.message)
            for moment in told.moments:
                moment.attributes = sound(moment.attributes)
            return list(_converted(told))
    return found


def _converted(told: Told) -> Iterator[Span]:
    attributes = told.attributes
    session_id = session_of(attributes)
    if session_id is not None and len(session_id.encode()) > SESSION_MAX_BYTES:
        raise Invalid("attributes.session.id", f"longer than {SESSION_MAX_BYTES} bytes")
    name = cut(told.name, NAME_MAX_CHARS)
    is_ours = told.name.startswith("compact.")
    kind = cut(told.name, 100) if is_ours else kind_of(attributes)
    if kind == "span" and told.name == "turn":
        # OpenInference has no kind for the Agents SDK's turns; they keep their name.
        kind = "turn"
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
    yield Span(
        told.trace_id,
        told.span_id,
        told.parent_id,
        kind,
        name or kind,
        "error" if told.is_error or has_exception else "ok" if told.is_ok or told.ended_ns else "",
        _time(told.started_ns, "startTimeUnixNano"),
        _time(told.ended_ns, "endTimeUnixNano"),
        _encode(data),
        _encode(said) if said else None,
        session_id,
        facts_of(kind, data),
        data,
        said or None,
    )


def _child(told: Told, moment: Moment, number: int, session_id: str | None) -> Span:
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
