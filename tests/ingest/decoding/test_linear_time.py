"""Decoding takes linear time for any input, and hostile input costs at most 20 times as much as ordinary input.

Redaction has its own test in `tests/client/redaction`. Only a few bodies are redacted here.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from growth import assert_linear
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ingest.archive.transcript_format import BadTranscript, parse_messages
from ingest.decoding import json_body, lenient_json
from ingest.decoding.door.redaction import redact
from ingest.decoding.otlp import conversion
from ingest.decoding.records import Span
from ingest.errors import RequestError
from ingest.http.decode_jobs import decode_events
from ingest.storage.messages import extract

Make = Callable[[int], bytes]
MAX_EVENTS = 10_000
SPAN = b'{"type":"span","trace_id":"t","span_id":"s","data":{"a":'
OTLP = b'{"resourceSpans":[{"scopeSpans":[{"spans":['


def decode(body: bytes, read: Callable[..., Any] = json_body.decode) -> None:
    with contextlib.suppress(RequestError):
        parsed = read(body, max_events=MAX_EVENTS)
        for record, event in zip(redact(parsed).records, parsed.events, strict=True):
            if isinstance(record, Span):
                extract(record, event.payload)


def decode_lines(body: bytes) -> None:
    decode(body, lambda raw, max_events: json_body.decode(raw, max_events=max_events, is_lines=True))


def decode_otlp_json(body: bytes) -> None:
    decode(body, conversion.from_json)


def decode_otlp_protobuf(body: bytes) -> None:
    decode(body, conversion.from_protobuf)


def parse_transcript(body: bytes) -> None:
    with contextlib.suppress(BadTranscript):
        parse_messages(body, lambda messages: [(message, {}) for message in messages])


def fill(unit: bytes, size: int) -> bytes:
    return unit * (size // len(unit))


def around(head: bytes, unit: bytes, tail: bytes = b"") -> Make:
    return lambda size: head + fill(unit, size) + tail


def nest(head: bytes, opening: bytes, closing: bytes, tail: bytes) -> Make:
    return lambda size: head + opening * (size // 6) + b"1" + closing * (size // 6) + tail


def ordinary_event(number: int) -> dict[str, Any]:
    return {
        "type": "span",
        "trace_id": f"trace-{number // 50}",
        "span_id": f"{number:016x}",
        "kind": "generation",
        "started_at": 1_763_265_600 + number,
        "data": {"session_id": "s", "model": "gpt-5", "usage": {"input_tokens": number}, "labels": ["eu", "nightly"]},
        "payload": {
            "input": [{"role": "user", "content": f"Please read file {number} and fix the failing test. " * 5}]
        },
    }


def ordinary(size: int) -> bytes:
    return json.dumps([ordinary_event(number) for number in range(size // 650 + 1)]).encode()


def ordinary_short(size: int) -> bytes:
    """Events that are as short as possible. Each costs about as much as a long one."""
    return b"[" + b",".join(b'{"trace_id":"t","span_id":"%d"}' % number for number in range(size // 32)) + b"]"


def ordinary_otlp(size: int) -> bytes:
    spans = [
        {
            "traceId": f"{number + 1:032x}",
            "spanId": f"{number + 1:016x}",
            "name": "chat",
            "startTimeUnixNano": "1763265600000000000",
            "attributes": [
                {"key": f"gen_ai.prompt.{turn}.content", "value": {"stringValue": f"Read file {turn}. " * 5}}
                for turn in range(4)
            ],
        }
        for number in range(size // 700 + 1)
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


def otlp_keys(template: str) -> Make:
    """Return a span with many attributes, whose keys are numbered."""

    def make(size: int) -> bytes:
        pairs = [{"key": template.format(n), "value": {"stringValue": "x"}} for n in range(size // 60)]
        span = {"traceId": "1" * 32, "spanId": "1" * 16, "attributes": pairs}
        return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()

    return make


BODIES: dict[str, Make] = {
    "escaped quotes without an end": around(b'{"a":"', b'\\"'),
    "escaped quotes after brackets": around(b"[" * 300 + b'"', b'\\"'),
    "escaped quotes and a NUL": around(b'{"a":"\\u0000', b'\\"'),
    "backslashes": around(b'{"a":"', b"\\"),
    "quotes": around(b"[" * 300, b'"'),
    "empty strings": around(SPAN + b"[", b'"",', b'""]}}'),
    "opening brackets": around(b"", b"["),
    "opening objects": around(b"", b'{"a":'),
    "closing brackets": around(b"[" * 300, b"]"),
    "nested lists": nest(SPAN, b"[", b"]", b"}}"),
    "nested objects": nest(SPAN, b'{"a":', b"}", b"}}"),
    "nested objects with a NUL": nest(SPAN + b'["\\u0000",', b'{"a":', b"}", b"]}}"),
    "lists at the deepest level": around(SPAN + b"[" * 190, b"[],", b"[]" + b"]" * 190 + b"}}"),
    "lists below the deepest level": around(SPAN + b"[" * 230, b"[],", b"[]" + b"]" * 230 + b"}}"),
    "digits": around(SPAN, b"9", b"}}"),
    "fraction digits": around(SPAN + b"1.", b"9", b"}}"),
    "time digits": around(b'{"type":"span","trace_id":"t","span_id":"s","started_at":"', b"9", b'"}'),
    "spaces": around(b"[", b" ", b"]"),
    "invalid UTF-8": around(b'{"a":"', b"\xff", b'"}'),
    "lone surrogates": around(SPAN + b'"', rb"\ud800", b'"}}'),
    "JSON in a string": around(b'{"type":"span","trace_id":"t","span_id":"s","data":"', b'{\\"a\\":', b'"}'),
    "keys": lambda size: SPAN + b"{" + b",".join(b'"%d":1' % n for n in range(size // 8)) + b"}}}",
    "keys with NUL": lambda size: SPAN + b"{" + b",".join(b'"%d\\u0000":1' % n for n in range(size // 14)) + b"}}}",
    "flat keys": lambda size: (
        b'{"event":"x","session_id":"s"' + b"".join(b',"%d":1' % n for n in range(size // 8)) + b"}"
    ),
    "messages": around(SPAN + b'1},"payload":{"messages":[', b'{"role":"user"},', b"{}]}}"),
}
SHORT_EVENTS: dict[str, Make] = {
    "empty events": lambda size: b"[" + b",".join([b"{}"] * (size // 3)) + b"]",
    "numbers": around(b"[", b"1,", b"1]"),
    "texts": around(b"[", b'"",', b'""]'),
}
LINES: dict[str, Make] = {
    "half objects": around(b"", b"{\n"),
    "words": around(b"", b"{x}\n"),
    "empty lines": around(b"{}", b"\n"),
}
OTLP_BODIES: dict[str, Make] = {
    "snake case": around(b'{"resource_spans":', b'"trace_id" ', b"}"),
    "flattened messages": otlp_keys("gen_ai.prompt.{}.content"),
    "long paths": otlp_keys("gen_ai.prompt.{}.a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p"),
    "one message": otlp_keys("llm.input_messages.0.message.field{}"),
    "nested values": nest(
        OTLP + b'{"traceId":"%b","spanId":"%b","attributes":[{"key":"a","value":' % (b"1" * 32, b"1" * 16),
        b'{"arrayValue":{"values":[',
        b"]}}",
        b"}]}]}]}]}",
    ),
    "brackets": around(b"", b"["),
    "JSON in an attribute": around(
        OTLP
        + b'{"traceId":"%b","spanId":"%b","attributes":[{"key":"input.value","value":{"stringValue":"'
        % (b"1" * 32, b"1" * 16),
        b"[{",
        b'"}}]}]}]}]}',
    ),
}


@pytest.mark.req("A-LIN-1")
@pytest.mark.parametrize("case", BODIES)
def test_json_bodies_take_linear_time(case: str) -> None:
    assert_linear(decode, BODIES[case], ordinary=ordinary)


REDACTED_BODIES: dict[str, Make] = {
    "keys of passwords": lambda size: (
        SPAN + b"{" + b",".join(b'"password%d":"x"' % n for n in range(size // 20)) + b"}}}"
    ),
    "texts of passwords": around(SPAN + b"[", b'"password=x1",', b'""]}}'),
    "values in values": around(SPAN + b'"', b"authorization:{bearer+pat.signature=", b'"}}'),
}


@pytest.mark.req("A-LIN-1")
@pytest.mark.parametrize("case", REDACTED_BODIES)
def test_bodies_with_secrets_take_linear_time(case: str) -> None:
    """Each is decoded and redacted as in a request."""
    assert_linear(lambda body: decode_events(body, "json", MAX_EVENTS), REDACTED_BODIES[case])


@pytest.mark.parametrize("case", SHORT_EVENTS)
def test_short_invalid_events_cost_little_more_than_short_valid_ones(case: str) -> None:
    """Bodies with more events than the limit are rejected before their events are."""
    assert_linear(decode, SHORT_EVENTS[case], ordinary=ordinary_short)


@pytest.mark.req("A-LIN-1")
@pytest.mark.parametrize("case", LINES)
def test_ndjson_takes_linear_time(case: str) -> None:
    assert_linear(decode_lines, LINES[case], ordinary=lambda size: ordinary_short(size)[1:-1].replace(b"},", b"}\n"))


@pytest.mark.req("A-LIN-1")
@pytest.mark.parametrize("case", OTLP_BODIES)
def test_otlp_json_takes_linear_time(case: str) -> None:
    assert_linear(decode_otlp_json, OTLP_BODIES[case], ordinary=ordinary_otlp)


def test_short_invalid_otlp_spans_cost_little_more_than_short_valid_ones() -> None:
    def ordinary_spans(size: int) -> bytes:
        spans = [b'{"traceId":"%032x","spanId":"%016x"}' % (n, n) for n in range(1, size // 73 + 2)]
        return OTLP + b",".join(spans) + b"]}]}]}"

    assert_linear(decode_otlp_json, around(OTLP, b"{},", b"{}]}]}]}"), ordinary=ordinary_spans)


@pytest.mark.req("A-LIN-1")
def test_otlp_protobuf_takes_linear_time() -> None:
    """Deep values, many attributes and bytes that are no message."""

    def spans(size: int) -> bytes:
        request = ExportTraceServiceRequest()
        span = request.resource_spans.add().scope_spans.add().spans.add(trace_id=b"1" * 16, span_id=b"1" * 8)
        for number in range(size // 40):
            span.attributes.add(key=f"gen_ai.prompt.{number}.content").value.string_value = "[{" * 5
        return bytes(request.SerializeToString())

    for make in (spans, around(b"", b"\x0a\x05"), around(b"", b"\xff"), around(b"\x0a\xff\xff\x03", b"\x12\x00")):
        assert_linear(decode_otlp_protobuf, make)


@pytest.mark.req("A-LIN-1")
@pytest.mark.parametrize("unit", [b"{\n", b'{"a":', b'"\\"', b"[", b"{}\n", b'{"role":"user","content":[[]]}\n'])
def test_transcripts_take_linear_time(unit: bytes) -> None:
    assert_linear(parse_transcript, lambda size: fill(unit, size))


JSON_PIECES = st.lists(
    st.sampled_from([b"{", b"}", b"[", b"]", b'"', b"\\", b":", b",", b"1", b"\n", b" ", b"\xff", b'"a":', b"\\u0000"]),
    min_size=1,
    max_size=6,
).map(b"".join)


@pytest.mark.req("A-LIN-1")
@settings(max_examples=15)
@given(head=JSON_PIECES, unit=JSON_PIECES, tail=JSON_PIECES)
def test_any_repeated_text_takes_linear_time(head: bytes, unit: bytes, tail: bytes) -> None:
    assert_linear(decode, around(head, unit, tail))
    assert_linear(decode_otlp_json, around(head, unit, tail))


@given(raw=st.lists(JSON_PIECES, max_size=40).map(b"".join), depth=st.integers(1, 5))
def test_truncation_keeps_shallow_values(raw: bytes, depth: int) -> None:
    """The result is never deeper than the limit, and JSON that is not deeper stays as it is."""
    assert not lenient_json.is_deep(lenient_json.truncate_depth(raw, depth), depth)
    with contextlib.suppress(ValueError):
        value = json.loads(raw)
        if depth_of(value) <= depth:
            assert lenient_json.truncate_depth(raw, depth) == raw
        else:
            assert json.loads(lenient_json.truncate_depth(raw, depth)) == cut(value, depth)


def depth_of(value: Any) -> int:
    if isinstance(value, dict | list):
        return 1 + max(map(depth_of, value.values() if isinstance(value, dict) else value), default=0)
    return 0


def cut(value: Any, depth: int) -> Any:
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        return 0
    if isinstance(value, dict):
        return {key: cut(item, depth - 1) for key, item in value.items()}
    return [cut(item, depth - 1) for item in value]
