"""Map OTLP requests to raw records, and results to OTLP responses.

An invalid span is reported in the response's partial success, and the other spans are stored. `compact.*` events on a
span become its child spans.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec
from compact.events import EVENT_PREFIX, ErrorEvent
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from ingest.decoding import timestamps
from ingest.decoding.labels import label_attributes
from ingest.decoding.otlp.attributes import kind_of, parse_json_text, session_of, split_content
from ingest.decoding.otlp.json_format import read_json
from ingest.decoding.otlp.protobuf_format import read_protobuf
from ingest.decoding.otlp.span_data import OtlpEvent, OtlpSpan
from ingest.decoding.otlp.wire_messages import Status
from ingest.decoding.raw_records import Parsed, RawSpan, RawTrace, Rejection
from ingest.decoding.schema import CONTROL, SESSION_MAX_BYTES, InvalidEvent
from ingest.errors import RequestError, TooLarge

# HTTP status to gRPC code: unimplemented, resource exhausted, unavailable, unauthenticated. The default is invalid
# argument.
_GRPC_CODES = {405: 12, 429: 8, 503: 14, 401: 16}
_GRPC_INVALID_ARGUMENT = 3
_MAX_LISTED_REJECTIONS = 5
_MAX_STATUS_CHARS = 2000
_encode = msgspec.json.Encoder().encode


def from_protobuf(body: bytes, *, max_events: int) -> Parsed:
    return _parse(read_protobuf(body), max_events)


def from_json(body: bytes, *, max_events: int) -> Parsed:
    return _parse(read_json(body), max_events)


def response(rejections: list[Rejection], *, is_json: bool) -> bytes:
    """Return the ExportTraceServiceResponse, with the number of rejected spans and the first reasons."""
    if not rejections:
        return b"{}" if is_json else b""
    reasons = "; ".join(
        f"span {rejection.index}: {rejection.path} {rejection.message}".replace("  ", " ")
        for rejection in rejections[:_MAX_LISTED_REJECTIONS]
    )
    if is_json:
        return _encode({"partialSuccess": {"rejectedSpans": str(len(rejections)), "errorMessage": reasons}})
    message = ExportTraceServiceResponse()
    message.partial_success.rejected_spans = len(rejections)
    message.partial_success.error_message = reasons
    return bytes(message.SerializeToString())


def error_status(error: RequestError, *, is_json: bool) -> bytes:
    """Return an error as google.rpc.Status, which OTLP requires."""
    code = _GRPC_CODES.get(error.status, _GRPC_INVALID_ARGUMENT)
    if is_json:
        return _encode({"code": code, "message": error.message})
    return bytes(Status(code=code, message=error.message[:_MAX_STATUS_CHARS]).SerializeToString())


def _parse(otlp_spans: Iterable[OtlpSpan | InvalidEvent], max_events: int) -> Parsed:
    parsed = Parsed()
    traces: dict[str, tuple[str, dict[str, Any]]] = {}
    labels: dict[str, dict[str, Any]] = {}
    for index, otlp_span in enumerate(otlp_spans):
        if index >= max_events:
            raise TooLarge(f"The request has more than {max_events:,} spans. Send them in several requests.")
        try:
            if isinstance(otlp_span, InvalidEvent):
                raise otlp_span
            spans = _to_spans(otlp_span)
        except InvalidEvent as error:
            parsed.rejections.append(Rejection(index, error.path, error.message))
            continue
        for span in spans:
            parsed.add(index, span)
        trace_id, is_root = otlp_span.trace_id, otlp_span.parent_id is None
        if is_root or trace_id not in traces:
            known_name, _ = traces.get(trace_id, ("", None))
            name = otlp_span.name if is_root else ""
            traces[trace_id] = (name or known_name, otlp_span.resource)
        if span_labels := label_attributes(otlp_span.attributes):
            labels[trace_id] = {**span_labels, **labels.get(trace_id, {})}
    for trace_id, (name, resource) in traces.items():
        metadata = {**labels.get(trace_id, {}), **resource}
        parsed.add(-1, RawTrace(trace_id, name, None, None, None, None, metadata, _encode(metadata)))
    return parsed


def _session_id(attributes: dict[str, Any]) -> str | None:
    session_id = session_of(attributes)
    if session_id is not None and len(session_id.encode()) > SESSION_MAX_BYTES:
        raise InvalidEvent("attributes.session.id", f"longer than {SESSION_MAX_BYTES} bytes")
    if session_id is not None and CONTROL.search(session_id):
        raise InvalidEvent("attributes.session.id", "has a control character")
    return session_id


def _to_spans(otlp_span: OtlpSpan) -> list[RawSpan]:
    """Return the span and the child spans that its `compact.*` events become."""
    attributes = otlp_span.attributes
    session_id = _session_id(attributes)
    kind = _kind(otlp_span)
    data, payload = _compact_content(attributes) if kind.startswith(EVENT_PREFIX) else split_content(attributes)
    if otlp_span.message:
        data["status_message"] = otlp_span.message
    has_exception = False
    children: list[RawSpan] = []
    other_events: list[dict[str, Any]] = []
    for number, event in enumerate(otlp_span.events):
        if event.name.startswith(EVENT_PREFIX):
            children.append(_child_span(otlp_span, event, number, session_id))
        elif event.name == "exception":
            has_exception = True
            data["error"] = {key.removeprefix("exception."): value for key, value in event.attributes.items()}
        else:
            other_events.append({"name": event.name, **event.attributes})
    if other_events:
        payload["events"] = other_events
    span = RawSpan(
        otlp_span.trace_id,
        otlp_span.span_id,
        otlp_span.parent_id,
        kind,
        otlp_span.name,
        _status(otlp_span, has_exception=has_exception),
        _time(otlp_span.started_ns, "startTimeUnixNano"),
        _time(otlp_span.ended_ns, "endTimeUnixNano"),
        data,
        payload or None,
        _encode(data),
        _encode(payload) if payload else None,
        session_id,
    )
    return [*children, span]


def _kind(otlp_span: OtlpSpan) -> str:
    name = otlp_span.name
    if name.startswith(EVENT_PREFIX):
        return name
    kind = kind_of(otlp_span.attributes)
    # OpenInference has no kind for the turns of the Agents SDK.
    return "turn" if kind == "span" and name == "turn" else kind


def _status(otlp_span: OtlpSpan, *, has_exception: bool) -> str:
    if otlp_span.is_error or has_exception:
        return "error"
    return "ok" if otlp_span.is_ok or otlp_span.ended_ns else ""


def _child_span(otlp_span: OtlpSpan, event: OtlpEvent, number: int, session_id: str | None) -> RawSpan:
    """Convert a `compact.*` event on a span. Its id is derived from the content, so that a replay gives the same id."""
    data, payload = _compact_content(event.attributes)
    at_us = _time(event.time_ns, f"events[{number}].timeUnixNano")
    identity = f"{otlp_span.trace_id}{otlp_span.span_id}{event.name}{event.time_ns}{number}".encode()
    kind = event.name
    return RawSpan(
        trace_id=otlp_span.trace_id,
        span_id=hashlib.blake2b(identity, digest_size=8).hexdigest(),
        parent_id=otlp_span.span_id,
        kind=kind,
        name=kind,
        status="error" if kind == ErrorEvent.name else "ok",
        started_us=at_us,
        ended_us=at_us,
        data=data,
        payload=payload or None,
        encoded_data=_encode(data),
        encoded_payload=_encode(payload) if payload else None,
        session_id=_session_id(event.attributes) or session_id,
        has_derived_id=True,
    )


def _compact_content(attributes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return data and payload of a compaction event.

    OTLP attributes cannot nest, so the exporter sends nested values as JSON strings. Keys may have a prefix.
    """
    data = {key.removeprefix(EVENT_PREFIX): parse_json_text(value) for key, value in attributes.items()}
    payload = data.pop("payload", None)
    if payload is None:
        return data, {}
    return data, payload if isinstance(payload, dict) else {"payload": payload}


def _time(nanoseconds: int, path: str) -> int | None:
    if nanoseconds == 0:
        return None
    time_us = timestamps.from_nanoseconds(nanoseconds)
    if not timestamps.is_in_range(time_us):
        raise InvalidEvent(path, "expected nanoseconds since 1970")
    return time_us
