"""POST /v1/traces: requests of OpenTelemetry clients become sessions."""

from __future__ import annotations

import gzip
import json
import random
import uuid
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode

from ingest.decoding.door.redaction import redact
from ingest.decoding.otlp import conversion

from ..conftest import Wire

MESSAGES = [{"role": "user", "content": "Where is the invoice?"}]


def tracer(wire: Wire, compression: Compression = Compression.NoCompression) -> tuple[Any, TracerProvider]:
    exporter = OTLPSpanExporter(
        endpoint=f"{wire.url}/v1/traces", headers={"authorization": f"Bearer {wire.key}"}, compression=compression
    )
    provider = TracerProvider(resource=Resource.create({"service.name": "billing-agent"}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider.get_tracer("tests"), provider


@pytest.mark.req("K-ING-2")
@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_the_opentelemetry_sdk_works_unchanged(wire: Wire, name: str, compression: Compression) -> None:
    """gen_ai spans of the real SDK get kind, model and tokens, with texts in the payload of one session."""
    tracing, provider = tracer(wire, compression)
    with tracing.start_as_current_span("invoke_agent billing") as agent:
        agent.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": name})
        with tracing.start_as_current_span("chat gpt-5") as chat:
            chat.set_attributes(
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.request.model": "gpt-5",
                    "gen_ai.usage.input_tokens": 1200,
                    "gen_ai.usage.output_tokens": 34,
                    "gen_ai.input.messages": json.dumps(MESSAGES),
                }
            )
        with tracing.start_as_current_span("execute_tool search") as tool:
            tool.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"})
            tool.record_exception(ValueError("no such table"))
            tool.set_status(Status(StatusCode.ERROR, "no such table"))
        agent.add_event("compact.token_estimate", {"t_est": 1200, "max_tokens": 8000, "breakdown": '{"history": 1200}'})
    provider.shutdown()
    rows = {row["name"]: row for row in wire.spans(name)}
    agent_row, chat_row, tool_row = (rows[key] for key in ("invoke_agent billing", "chat gpt-5", "execute_tool search"))
    assert [row["kind"] for row in (agent_row, chat_row, tool_row)] == ["agent", "generation", "tool"]
    assert chat_row["parent_id"] == tool_row["parent_id"] == agent_row["span_id"]
    assert (chat_row["tokens"], chat_row["payload"]["input"]) == (1234, MESSAGES)
    assert "gen_ai.input.messages" not in chat_row["data"]
    assert (tool_row["status"], tool_row["data"]["error"]["message"]) == ("error", "no such table")
    estimate = rows["compact.token_estimate"]
    assert (estimate["kind"], estimate["parent_id"]) == ("compact.token_estimate", agent_row["span_id"])
    assert estimate["data"]["breakdown"] == {"history": 1200}
    session = wire.session(name)
    assert (session["model"], session["peak_tokens"], session["window_tokens"]) == ("gpt-5", 1200, 8000)
    assert (session["span_count"], session["error_count"]) == (4, 1)
    (trace,) = wire.rows("SELECT * FROM ingest_trace WHERE session_key = %s", session["session_key"])
    assert (trace["name"], trace["metadata"]["service.name"]) == ("invoke_agent billing", "billing-agent")


@pytest.mark.req("K-ING-2")
def test_openinference_spans_are_understood(wire: Wire, name: str) -> None:
    """Kinds, flattened messages and token counts in the vocabulary of Phoenix."""
    tracing, provider = tracer(wire)
    with tracing.start_as_current_span("pipeline") as chain:
        chain.set_attributes({"openinference.span.kind": "CHAIN", "session.id": name, "input.value": '{"q": "hi"}'})
        with tracing.start_as_current_span("ChatCompletion") as llm:
            llm.set_attributes(
                {
                    "openinference.span.kind": "LLM",
                    "llm.model_name": "gpt-5-mini",
                    "llm.token_count.prompt": 10,
                    "llm.token_count.completion": 5,
                    "llm.input_messages.0.message.role": "user",
                    "llm.input_messages.0.message.content": "hi",
                    "llm.output_messages.0.message.role": "assistant",
                    "llm.output_messages.0.message.content": "hello",
                }
            )
        with tracing.start_as_current_span("lookup") as retriever:
            retriever.set_attribute("openinference.span.kind", "RETRIEVER")
        with tracing.start_as_current_span("turn") as turn:
            turn.set_attribute("openinference.span.kind", "CHAIN")
    provider.shutdown()
    rows = {row["name"]: row for row in wire.spans(name)}
    assert {key: row["kind"] for key, row in rows.items()} == {
        "pipeline": "span",
        "ChatCompletion": "generation",
        "lookup": "retrieval",
        "turn": "turn",
    }
    assert rows["ChatCompletion"]["payload"] == {
        "input": [{"role": "user", "content": "hi"}],
        "output": [{"role": "assistant", "content": "hello"}],
    }
    assert (rows["ChatCompletion"]["tokens"], wire.session(name)["model"]) == (15, "gpt-5-mini")
    assert rows["pipeline"]["payload"] == {"input": {"q": "hi"}}


@pytest.mark.req("K-ING-2")
def test_openllmetry_spans_are_understood(wire: Wire, name: str) -> None:
    """Workflows, association properties, flattened prompts and tool calls in the vocabulary of Traceloop."""
    tracing, provider = tracer(wire)
    session = {"traceloop.association.properties.session_id": name, "traceloop.workflow.name": "billing"}
    with tracing.start_as_current_span("billing.workflow") as workflow:
        workflow.set_attributes({**session, "traceloop.span.kind": "workflow"})
        workflow.set_attribute("traceloop.entity.input", '{"args": [], "kwargs": {"q": "hi"}}')
        with tracing.start_as_current_span("look_up.tool") as tool:
            tool.set_attributes({**session, "traceloop.span.kind": "tool", "traceloop.entity.output": '"none"'})
        with tracing.start_as_current_span("openai.chat") as chat:
            chat.set_attributes(
                {
                    **session,
                    "llm.request.type": "chat",
                    "gen_ai.system": "openai",
                    "gen_ai.request.model": "gpt-5",
                    "gen_ai.usage.prompt_tokens": 40,
                    "gen_ai.usage.completion_tokens": 2,
                    "llm.usage.total_tokens": 42,
                    "gen_ai.prompt.0.role": "user",
                    "gen_ai.prompt.0.content": "hi",
                    "gen_ai.completion.0.role": "assistant",
                    "gen_ai.completion.0.finish_reason": "tool_calls",
                    "gen_ai.completion.0.tool_calls.0.name": "look_up",
                    "gen_ai.completion.0.tool_calls.0.arguments": "{}",
                    "traceloop.prompt.template": "Answer {{q}}",
                }
            )
    provider.shutdown()
    rows = {row["name"]: row for row in wire.spans(name)}
    kinds = {"billing.workflow": "span", "look_up.tool": "tool", "openai.chat": "generation"}
    assert {key: row["kind"] for key, row in rows.items()} == kinds
    assert rows["billing.workflow"]["payload"] == {"input": {"args": [], "kwargs": {"q": "hi"}}}
    response = {
        "role": "assistant",
        "finish_reason": "tool_calls",
        "tool_calls": [{"name": "look_up", "arguments": "{}"}],
    }
    assert rows["openai.chat"]["payload"] == {
        "input": [{"role": "user", "content": "hi"}],
        "output": [response],
        "traceloop.prompt.template": "Answer {{q}}",
    }
    assert (rows["openai.chat"]["tokens"], wire.session(name)["model"]) == (42, "gpt-5")


def test_attributes_that_are_not_message_paths_are_kept(wire: Wire) -> None:
    """A path that conflicts with another one, or is too deep, stays an attribute of its own."""
    trace_id = uuid.uuid4().hex
    odd = {"gen_ai.prompt.0.a": 1, "gen_ai.prompt.0.a.b": 2, "gen_ai.prompt.x": 3, "gen_ai.prompt.²": 4}
    odd |= {"llm.input_messages.message": 5, "gen_ai.completion.": 6, "llm.output_messages.0": 7}
    odd["gen_ai.prompt.0" + ".z" * 5000] = 8
    attributes = [{"key": key, "value": {"intValue": value}} for key, value in odd.items()]
    assert wire.post(as_json(json_span(trace_id, attributes=attributes)), path="/v1/traces").json() == {}
    (row,) = wire.spans(trace_id)
    assert row["payload"]["input"][0]["a"] == 1
    kept = ["gen_ai.prompt.0.a.b", "gen_ai.prompt.x", "llm.input_messages.message", "llm.output_messages.0"]
    assert [row["payload"][key] for key in kept] == [2, 3, 5, 7]


def as_json(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def json_span(trace_id: str, number: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "traceId": trace_id,
        "spanId": f"{number:016x}",
        "name": f"span {number}",
        "startTimeUnixNano": "1763265600000000000",
        "endTimeUnixNano": "1763265601000000000",
        **more,
    }


@pytest.mark.req("K-ING-2")
@pytest.mark.parametrize("is_compressed", [False, True])
def test_json_requests_get_json_responses(wire: Wire, is_compressed: bool) -> None:
    """Plain or gzipped. Numbers can be strings, ids are hexadecimal, and the response is an empty object."""
    trace_id = uuid.uuid4().hex
    value = {"intValue": "42"}
    nested = {"kvlistValue": {"values": [{"key": "a", "value": {"arrayValue": {"values": [{"boolValue": True}]}}}]}}
    body = json.dumps(
        as_json(json_span(trace_id, attributes=[{"key": "n", "value": value}, {"key": "tree", "value": nested}]))
    ).encode()
    headers = {"content_encoding": "gzip"} if is_compressed else {}
    response = wire.post(gzip.compress(body) if is_compressed else body, path="/v1/traces", **headers)
    assert (response.status_code, response.json()) == (200, {})
    (row,) = wire.spans(trace_id)
    assert row["data"] == {"n": 42, "tree": {"a": [True]}}


@pytest.mark.parametrize("is_snake", [False, True], ids=["camelCase", "snake_case"])
def test_json_written_by_protobuf_is_accepted(wire: Wire, is_snake: bool) -> None:
    """`json_format` writes ids in base64 and field names in camelCase or snake_case."""
    trace_id = uuid.uuid4().bytes
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(trace_id=trace_id, span_id=b"12345678", name="chat")
    span.start_time_unix_nano = span.end_time_unix_nano = 1763265600000000001
    span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
    span.attributes.add(key="snake_key").value.int_value = 7
    body = json_format.MessageToJson(request, preserving_proto_field_name=is_snake).encode()
    assert wire.post(body, path="/v1/traces").json() == {}
    (row,) = wire.spans(trace_id.hex())
    assert (row["span_id"], row["kind"], row["data"]["snake_key"]) == (b"12345678".hex(), "generation", 7)


def test_times_can_be_numbers(wire: Wire) -> None:
    """Also with an exponent, which some languages write for large numbers."""
    trace_id = uuid.uuid4().hex
    times = {"startTimeUnixNano": 1763265600000000000, "endTimeUnixNano": 1.7632656e18, "parentSpanId": "0" * 16}
    assert wire.post(as_json(json_span(trace_id, **times)), path="/v1/traces").json() == {}
    (row,) = wire.spans(trace_id)
    assert row["started_at"] == row["ended_at"]
    assert row["parent_id"] is None


@pytest.mark.parametrize(
    "resource", [b'{"attributes": [{"key": 7}]}', b'{"attributes": [{"key": "x", "value": %b}]}' % (b"[" * 9_999)]
)
def test_an_invalid_resource_does_not_affect_its_spans(wire: Wire, resource: bytes) -> None:
    """The spans are stored without the attributes of their resource."""
    trace_id = uuid.uuid4().hex
    body = {"resourceSpans": [{"resource": "WXYZ", "scopeSpans": [{"spans": [json_span(trace_id)]}]}]}
    resource = resource.replace(b"[" * 9_999, b"[" * 9_999 + b"]" * 9_999)
    assert wire.post(json.dumps(body).encode().replace(b'"WXYZ"', resource), path="/v1/traces").json() == {}
    assert len(wire.spans(trace_id)) == 1


@pytest.mark.req("K-ING-2")
def test_accepted_spans_are_counted_once(wire: Wire) -> None:
    """Their traces and events do not count as spans."""

    def accepted_count() -> float:
        start = 'ariadne_ingest_events_accepted_total{endpoint="/v1/traces"}'
        lines = wire.http.get(wire.url + "/metrics").text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(start))

    before = accepted_count()
    events = [{"name": "compact.check", "timeUnixNano": "1763265600000000000"}]
    spans = [json_span(uuid.uuid4().hex, number, events=events) for number in (1, 2)]
    assert wire.post(as_json(*spans), path="/v1/traces").json() == {}
    assert accepted_count() - before == 2


@pytest.mark.req("K-ING-2")
def test_partial_success_has_the_rejected_spans(wire: Wire) -> None:
    """Valid spans are stored. The response has the number of rejected spans and the reasons, in both formats."""
    trace_id = uuid.uuid4().hex
    bad = json_span(trace_id, 2, spanId="00")
    response = wire.post(as_json(json_span(trace_id, 1), bad), path="/v1/traces")
    assert response.json()["partialSuccess"]["rejectedSpans"] == "1"
    assert "spanId" in response.json()["partialSuccess"]["errorMessage"]
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    spans.add(trace_id=bytes.fromhex(trace_id), span_id=b"12345678", name="good", start_time_unix_nano=10**18)
    spans.add(trace_id=b"short", span_id=b"12345678", name="bad")
    response = wire.post(request.SerializeToString(), path="/v1/traces", content_type="application/x-protobuf")
    assert response.headers["content-type"] == "application/x-protobuf"
    assert ExportTraceServiceResponse.FromString(response.content).partial_success.rejected_spans == 1
    assert {row["name"] for row in wire.spans(trace_id)} == {"span 1", "good"}


@pytest.mark.parametrize(
    "bad",
    [
        {"name": 5},
        {"attributes": [{"key": "a", "value": 5}]},
        {"startTimeUnixNano": 1.5},
        {"startTimeUnixNano": "²"},
        {"endTimeUnixNano": "99999999999999999999"},
        {"parentSpanId": "short"},
    ],
    ids=str,
)
def test_an_invalid_span_in_json_does_not_affect_others(wire: Wire, bad: dict[str, Any]) -> None:
    """The other spans are stored, and the response names the field."""
    trace_id = uuid.uuid4().hex
    nulls = dict.fromkeys(("attributes", "events", "status", "parentSpanId"))
    response = wire.post(as_json(json_span(trace_id, 1, **nulls), json_span(trace_id, 2, **bad)), path="/v1/traces")
    assert response.json()["partialSuccess"]["rejectedSpans"] == "1"
    assert f"span 1: {next(iter(bad))}" in response.json()["partialSuccess"]["errorMessage"]
    assert [row["name"] for row in wire.spans(trace_id)] == ["span 1"]


@pytest.mark.parametrize("fault", ["deep", "invalid UTF-8"])
def test_an_invalid_span_in_protobuf_does_not_affect_others(wire: Wire, fault: str) -> None:
    """The parser rejects the whole request. The valid spans are stored with their resource."""
    trace_id = uuid.uuid4().bytes
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    resource_spans.resource.attributes.add(key="service.name").value.string_value = "agent"
    spans = resource_spans.scope_spans.add().spans
    for number, name in enumerate(("first", "WXYZ", "last")):
        spans.add(trace_id=trace_id, span_id=bytes([number] * 7 + [1]), name=name, start_time_unix_nano=10**18)
    if fault == "deep":
        value = spans[1].attributes.add(key="deep").value
        for _ in range(200):
            value = value.array_value.values.add()
    body = request.SerializeToString().replace(b"WXYZ", b"WXYZ" if fault == "deep" else b"\xff\xfeYZ")
    response = wire.post(body, path="/v1/traces", content_type="application/x-protobuf")
    partial = ExportTraceServiceResponse.FromString(response.content).partial_success
    assert (partial.rejected_spans, partial.error_message[:7]) == (1, "span 1:")
    assert [row["name"] for row in wire.spans(trace_id.hex())] == ["first", "last"]
    (trace,) = wire.rows("SELECT metadata FROM ingest_trace WHERE trace_id = %s", trace_id.hex())
    assert trace["metadata"] == {"service.name": "agent"}


def test_deeply_nested_values_are_truncated(wire: Wire) -> None:
    """A value with ninety levels is stored down to a limit, with a note at the end."""
    trace_id = uuid.uuid4().hex
    deep: dict[str, Any] = {"stringValue": "bottom"}
    for _ in range(90):
        deep = {"arrayValue": {"values": [deep]}}
    span = json_span(trace_id, attributes=[{"key": "deep", "value": deep}])
    assert wire.post(as_json(span), path="/v1/traces").json() == {}
    (row,) = wire.spans(trace_id)
    assert "nested deeper than 64 levels" in json.dumps(row["data"])


def test_deeply_nested_json_in_a_string_stays_a_string(wire: Wire) -> None:
    """It is not parsed, and it is redacted as text."""
    trace_id = uuid.uuid4().hex
    deep = "[" * 700 + '"password=hunter2hunter2"' + "]" * 700
    attributes = [{"key": "input.value", "value": {"stringValue": deep}}]
    assert wire.post(as_json(json_span(trace_id, attributes=attributes)), path="/v1/traces").json() == {}
    (row,) = wire.spans(trace_id)
    assert row["payload"]["input"] == deep.replace("hunter2hunter2", "<REDACTED>")


# An attribute of the second of three spans, and the value that is stored. None: the span is rejected.
ODD_VALUES = {
    "deep": (b"[" * 20_000 + b"]" * 20_000, None),
    "NaN": (b'{"doubleValue": NaN}', "nan"),
    "nul": (rb'{"stringValue": "a\u0000b"}', "a\ufffdb"),
    "lone surrogate": (rb'{"stringValue": "a\ud800b"}', "a\ufffdb"),
    "invalid UTF-8": (b'{"stringValue": "a\xffb"}', "a\ufffdb"),
}


@pytest.mark.parametrize("case", ODD_VALUES)
def test_an_odd_value_in_json_does_not_affect_other_spans(wire: Wire, case: str) -> None:
    """It is replaced, or its span is rejected if it is too deep. The other spans and the resource are unchanged."""
    trace_id = uuid.uuid4().hex
    value, expected = ODD_VALUES[case]
    spans = [json_span(trace_id, number) for number in (1, 2, 3)]
    spans[1]["attributes"] = [{"key": "x", "value": "WXYZ"}]
    service = {"key": "service.name", "value": {"stringValue": "agent"}}
    resource_spans = {"resource": {"attributes": [service]}, "scopeSpans": [{"spans": spans}]}
    body = json.dumps({"resourceSpans": [resource_spans]}).encode().replace(b'"WXYZ"', value)
    response = wire.post(body, path="/v1/traces")
    assert response.status_code == 200
    stored = {row["name"]: row["data"].get("x") for row in wire.spans(trace_id)}
    if expected is None:
        assert response.json()["partialSuccess"]["errorMessage"].startswith("span 1:")
        assert stored == {"span 1": None, "span 3": None}
    else:
        assert response.json() == {}
        assert stored == {"span 1": None, "span 2": expected, "span 3": None}
    (trace,) = wire.rows("SELECT metadata FROM ingest_trace WHERE trace_id = %s", trace_id)
    assert trace["metadata"] == {"service.name": "agent"}


@pytest.mark.parametrize(
    "body", [b"{", b'{"resourceSpans": [NaN', b'{"a": NaN}', b'{"resourceSpans": []} {', b'{"resourceSpans": 5}']
)
def test_json_that_is_not_a_request_is_400(wire: Wire, body: bytes) -> None:
    """It is not mistaken for an empty request."""
    assert wire.post(body, path="/v1/traces").status_code == 400


def test_errors_are_a_status_message(wire: Wire) -> None:
    """The body is a google.rpc.Status in the format of the request."""
    response = wire.post(b"\xff\xff\xff", path="/v1/traces", content_type="application/x-protobuf")
    assert (response.status_code, response.headers["content-type"]) == (400, "application/x-protobuf")
    assert b"protobuf" in response.content
    assert wire.post(b"{", path="/v1/traces").status_code == 400
    assert wire.post(b"{}", path="/v1/traces", content_type="text/html").status_code == 415
    unauthorized = wire.post(b"{}", path="/v1/traces", key="ari_no")
    assert (unauthorized.status_code, unauthorized.json()["code"]) == (401, 16)
    assert wire.post(b"{}", path="/v1/traces").status_code == 200


def test_too_many_spans_are_413(wire: Wire) -> None:
    """The limit is that of all ingest requests."""
    spans = [json_span(uuid.uuid4().hex, number) for number in range(1, 10_002)]
    assert wire.post(as_json(*spans), path="/v1/traces").status_code == 413


def test_protobuf_texts_are_stored_without_nul_characters() -> None:
    """Names, keys, values, status and events. Postgres would reject the whole span."""
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    resource_spans.resource.attributes.add(key="r\0").value.string_value = "\0"
    span = resource_spans.scope_spans.add().spans.add(trace_id=b"t" * 16, span_id=b"s" * 8, name="n\0")
    span.attributes.add(key="k\0").value.string_value = "v\0"
    span.attributes.add(key="list").value.array_value.values.add().string_value = "v\0"
    span.attributes.add(key="map").value.kvlist_value.values.add(key="k\0").value.string_value = "v\0"
    span.attributes.add(key="session.id").value.string_value = "s\0"
    span.attributes.add(key="input.value").value.string_value = "v\0"
    span.status.message = "m\0"
    for name in ("e\0", "compact.\0", "exception"):
        span.events.add(name=name).attributes.add(key="k\0").value.string_value = "v\0"
    parsed = conversion.from_protobuf(request.SerializeToString(), max_events=10)
    assert parsed.rejections == [] and len(parsed.events) == 3
    stored = repr(redact(parsed).records)
    assert "\\u0000" not in stored and "\\x00" not in stored and stored.count("\\xef\\xbf\\xbd") >= 14


@pytest.mark.req("K-ING-2")
@pytest.mark.parametrize("seed", range(5))
def test_protobuf_spans_converge_in_any_order(wire: Wire, name: str, seed: int) -> None:
    """Split into requests at random, out of order and some of them twice, they are the same session as in order."""
    rng = random.Random(seed)

    def spans(session: str, trace: bytes) -> list[trace_pb2.Span]:
        texts = {"gen_ai.conversation.id": session, "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-5"}
        attributes = [KeyValue(key=key, value=AnyValue(string_value=text)) for key, text in texts.items()]
        attributes.append(KeyValue(key="gen_ai.usage.input_tokens", value=AnyValue(int_value=100)))
        return [
            trace_pb2.Span(
                trace_id=trace,
                span_id=number.to_bytes(8, "big"),
                parent_span_id=(number // 2).to_bytes(8, "big") if number > 1 else b"",
                name=f"chat {number}",
                start_time_unix_nano=1_790_000_000_000_000_000 + number * 10**6,
                end_time_unix_nano=1_790_000_000_000_000_000 + number * 2 * 10**6,
                # Only some spans name the session. The others belong to it by their trace.
                attributes=attributes if number % 3 == 1 else attributes[1:],
            )
            for number in range(1, 13)
        ]

    def send(group: list[trace_pb2.Span]) -> None:
        scope = trace_pb2.ScopeSpans(spans=group)
        request = ExportTraceServiceRequest(resource_spans=[trace_pb2.ResourceSpans(scope_spans=[scope])])
        answer = wire.post(request.SerializeToString(), path="/v1/traces", content_type="application/x-protobuf")
        assert answer.status_code == 200

    def find_rows(session: str) -> tuple[Any, Any]:
        rows = sorted((row["span_id"], row["parent_id"], row["name"], row["ended_at"]) for row in wire.spans(session))
        figures = wire.session(session)
        return rows, {
            key: figures[key] for key in ("span_count", "running_count", "error_count", "turn_count", "model")
        }

    ordered, shuffled = f"{name}-ordered", f"{name}-shuffled"
    send(spans(ordered, rng.randbytes(16)))
    rest = spans(shuffled, rng.randbytes(16))
    rng.shuffle(rest)
    while rest:
        size = rng.randint(1, 4)
        group, rest = rest[:size], rest[size:]
        for _ in range(rng.choice((1, 1, 2))):
            send(group)
    assert find_rows(shuffled) == find_rows(ordered)
    assert len(find_rows(ordered)[0]) == 12
