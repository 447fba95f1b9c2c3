"""The OTLP exporter, tested with the SDK, exporter and protobuf messages of OpenTelemetry."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from compact.exporters import OTLPExporter, otlp_provider
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from receiver import Answer, Receiver

TRACE, CHECK = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def events(*, error: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the events of one check that compacts, in the order in which the manager emits them."""
    common = {"session_id": "s1", "trace_id": TRACE, "status": "ok"}
    check = {**common, "event": "compact.check", "span_id": CHECK, "started_at": "2026-11-16T04:00:00.000Z"}
    yield {**check, "ts": check["started_at"], "properties": {"turn": 3}}
    yield {
        **common,
        "event": "compact.trigger_decision",
        "span_id": "00f067aa0ba902b7",
        "parent_id": CHECK,
        "ts": "2026-11-16T04:00:00.002Z",
        "properties": {"triggered": True, "policy": {"trigger_pct": 0.85}, "reason": "full", "model": "gpt-5"},
        "payload": {"secret plans": "private text"},
    }
    if error:
        yield {
            **common,
            "event": "compact.error",
            "span_id": "00f067aa0ba902b8",
            "parent_id": CHECK,
            "ts": "2026-11-16T04:00:00.003Z",
            "status": "error",
            "properties": {"error_type": "SummarizationError", "message": "no", "fallback": "pruning-only"},
        }
    yield {
        **check,
        "ts": "2026-11-16T04:00:00.250Z",
        "ended_at": "2026-11-16T04:00:00.250Z",
        "properties": {"turn": 3, "triggered": True, "model": "gpt-5", "tokens_after": 100},
    }


def value(attributes: Any, key: str) -> Any:
    any_value = next(a.value for a in attributes if a.key == key)
    return getattr(any_value, any_value.WhichOneof("value"))


_SCRIPT = """
import sys
from compact import CompactConfig, CompactManager, Message, OTLPExporter
manager = CompactManager(CompactConfig("gpt-5", 128_000, exporter=OTLPExporter(sys.argv[1])))
manager.preflight("s1", [Message("user", "hello")])
"""


@pytest.mark.req("P-EXP-1")
def test_process_exit_flushes_the_queue() -> None:
    """A script without close() exports its queued events when the interpreter exits."""
    with Receiver(Answer(body={})) as receiver:
        command = [sys.executable, "-c", _SCRIPT, f"{receiver.url}/v1/traces"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (result.returncode, result.stderr) == (0, "")
        messages = [ExportTraceServiceRequest.FromString(request.raw) for request in receiver.requests]
    spans = [s for message in messages for r in message.resource_spans for c in r.scope_spans for s in c.spans]
    names = [event.name for span in spans for event in span.events]
    assert ([span.name for span in spans], "compact.trigger_decision" in names) == (["before_model_call"], True)


@pytest.mark.req("P-EXP-1", "P-TST-2")
def test_check_is_sent_as_span_with_span_events() -> None:
    """The span has the ids of the check, the decision as a span event, and gen_ai.* attributes."""
    with Receiver(Answer(body={})) as receiver:
        exporter = OTLPExporter(f"{receiver.url}/v1/traces", headers={"authorization": "Bearer key"})
        for event in events():
            exporter.emit(event)
        assert exporter.flush(5)
        exporter.close()
        request = receiver.requests[0]
    assert request.path == "/v1/traces"
    assert request.headers["authorization"] == "Bearer key"
    assert request.headers["content-type"] == "application/x-protobuf"
    message = ExportTraceServiceRequest.FromString(request.raw)
    resource = message.resource_spans[0]
    assert value(resource.resource.attributes, "service.name") == "compact"
    (span,) = resource.scope_spans[0].spans
    assert (span.name, span.trace_id.hex(), span.span_id.hex()) == ("before_model_call", TRACE, CHECK)
    assert span.end_time_unix_nano - span.start_time_unix_nano == 250_000_000
    assert value(span.attributes, "gen_ai.conversation.id") == "s1"
    assert value(span.attributes, "gen_ai.request.model") == "gpt-5"
    assert value(span.attributes, "gen_ai.conversation.compacted") is True
    (decision,) = span.events
    assert decision.name == "compact.trigger_decision"
    assert value(decision.attributes, "compact.triggered") is True
    assert value(decision.attributes, "compact.policy.trigger_pct") == 0.85
    assert decision.time_unix_nano - span.start_time_unix_nano == 2_000_000
    assert b"private text" not in request.raw


PARTIAL = ExportTraceServiceResponse(partial_success={"rejected_spans": 1}).SerializeToString()


@pytest.mark.req("A-FLT-2")
@pytest.mark.parametrize(
    ("answer", "is_stored"),
    [
        (Answer(content=b"<html>Log in</html>", headers={"Content-Type": "text/html"}), False),
        (Answer(content=b"<html>Log in</html>", headers={"Content-Type": "application/x-protobuf"}), False),
        (Answer(content=b"ok"), False),
        (Answer(202, content=b'{"status": "accepted"}', headers={"Content-Type": "application/json"}), False),
        (Answer(302, content=b"", headers={"Location": "/login"}), False),
        (Answer(content=PARTIAL, headers={"Content-Type": "application/x-protobuf"}), False),
        (Answer(content=b'{"partialSuccess": {}}', headers={"Content-Type": "application/json"}), True),
        (Answer(content=b""), True),
    ],
)
def test_only_the_answer_of_a_receiver_is_a_success(
    answer: Answer, is_stored: bool, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The answer of a captive portal or a proxy, and rejected spans, are failures that are logged."""
    otlp_provider._logged_at.clear()
    with Receiver(answer) as receiver:
        exporter = OTLPExporter(f"{receiver.url}/v1/traces", timeout_s=0.5)
        for event in events():
            exporter.emit(event)
        assert exporter.flush(30) is is_stored
        assert (exporter.stats()["failures"] > 0) is not is_stored
        assert {request.path for request in receiver.requests} == {"/v1/traces"}
        exporter.close()
    assert bool(caplog.records or "rejected 1 spans" in capsys.readouterr().err) is not is_stored


@pytest.mark.req("A-FLT-2")
def test_dropped_events_are_counted_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    """The first drop is said at once, and the number at the end."""
    exporter = OTLPExporter(tracer_provider=TracerProvider())
    exporter._queue._max_queue = 0
    for event in events():
        exporter.emit(event)
    assert exporter.stats()["dropped"] == 3
    exporter.close()
    log = capsys.readouterr().err
    assert log.count("Events are dropped") == log.count("3 events were dropped") == 1


FORKED = """
import multiprocessing, sys
from compact import CompactConfig, CompactManager, Message, OTLPExporter
exporter = OTLPExporter(sys.argv[1])
manager = CompactManager(CompactConfig("gpt-5", 128_000, exporter=exporter))
def run(name):
    manager.preflight(name, [Message("user", "hello")])
children = [multiprocessing.get_context("fork").Process(target=run, args=(f"child-{n}",)) for n in range(3)]
for child in children: child.start()
for child in children: child.join()
"""


@pytest.mark.req("A-FLT-2")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_forked_children_export_their_last_events() -> None:
    """Each child exports its check before it ends."""
    with Receiver() as receiver:
        command = [sys.executable, "-W", "ignore", "-c", FORKED, f"{receiver.url}/v1/traces"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (result.returncode, result.stderr) == (0, "")
        messages = [ExportTraceServiceRequest.FromString(request.raw) for request in receiver.requests]
    spans = [s for message in messages for r in message.resource_spans for c in r.scope_spans for s in c.spans]
    sessions = sorted(value(span.attributes, "gen_ai.conversation.id") for span in spans)
    assert sessions == ["child-0", "child-1", "child-2"]


@pytest.mark.req("P-EXP-1")
def test_application_span_becomes_the_parent() -> None:
    """With the application's provider, the check is a child of the current span."""
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    exporter = OTLPExporter(tracer_provider=provider, include_payload=True)
    with provider.get_tracer("app").start_as_current_span("agent turn") as outer:
        for event in events(error=True):
            exporter.emit(event)
    assert exporter.flush(5)
    exporter.close()
    check = next(span for span in memory.get_finished_spans() if span.name == "before_model_call")
    assert check.parent is not None
    assert check.parent.span_id == outer.get_span_context().span_id
    assert [event.name for event in check.events] == ["compact.trigger_decision", "compact.error"]
    assert check.events[0].attributes is not None
    assert "private text" in str(check.events[0].attributes["compact.payload"])
    assert check.status.status_code.name == "ERROR"
    assert check.attributes is not None
    assert check.attributes["error.type"] == "SummarizationError"


def test_events_without_an_open_check_become_spans() -> None:
    """A late event is a child of its check, and a flat event (document 000) has no parent."""
    memory = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    exporter = OTLPExporter(tracer_provider=provider)
    for event in events():
        exporter.emit(event)
    exporter.emit({"event": "compact.archival", "session_id": "s1", "parent_id": CHECK, "span_id": "1" * 16})
    exporter.emit({"event": "compact.warning", "session_id": "s1", "ts": "2026-11-16T04:00:00Z", "properties": {}})
    assert exporter.flush(5)
    exporter.close()
    spans = {span.name: span for span in memory.get_finished_spans()}
    assert spans["compact.archival"].parent.span_id == spans["before_model_call"].context.span_id  # type: ignore[union-attr]
    assert spans["compact.warning"].parent is None


@pytest.mark.req("S-ARI-1")
def test_a_receiver_that_does_not_answer_does_not_block_the_agent() -> None:
    """Nothing raises or waits for the answers, which would take minutes, and closing meets its deadline."""
    with socket.create_server(("127.0.0.1", 0)) as receiver:
        url = f"http://127.0.0.1:{receiver.getsockname()[1]}/v1/traces"
        exporter = OTLPExporter(url, exit_timeout_s=0.3)
        started = time.perf_counter()
        for _ in range(200):
            for event in events():
                exporter.emit(event)
        assert time.perf_counter() - started < 20
        assert not exporter.flush(1)
        started = time.perf_counter()
        exporter.close()
        assert time.perf_counter() - started < 10


@pytest.mark.req("S-ARI-1")
def test_an_unreachable_receiver_does_not_stop_the_agent() -> None:
    """Nothing raises, and closing meets its deadline."""
    exporter = OTLPExporter("http://127.0.0.1:1/v1/traces", exit_timeout_s=0.3)
    for event in events():
        exporter.emit(event)
    assert not exporter.flush(3)
    started = time.perf_counter()
    exporter.close()
    assert time.perf_counter() - started < 10
