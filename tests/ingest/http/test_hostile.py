"""Odd and hostile input is stored, sanitized, or rejected with a path, and never affects other events."""

from __future__ import annotations

import gzip
import json
import socket
import time
from io import BytesIO
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from twisted.web.http import Request as TwistedRequest
from twisted.web.test.requesthelper import DummyChannel

from ariadne.runtime import request_guard

from ..conftest import Wire

T0 = "2026-11-16T04:00:00Z"


def span(trace: str, span_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "span", "trace_id": trace, "span_id": span_id, "started_at": T0, "ended_at": T0, **more}


def raw(trace: str, data: bytes) -> bytes:
    """Return a span whose data contains exactly these bytes."""
    return b'{"type": "span", "trace_id": "%b", "span_id": "bad", "started_at": "%b", "data": {"x": %b}}' % (
        trace.encode(),
        T0.encode(),
        data,
    )


# Values that some JSON parsers accept and Postgres or browsers do not.
STRANGE = {
    "nul": (rb'"a\u0000b"', "a\ufffdb"),
    "lone high surrogate": (rb'"a\ud800b"', "a\ufffdb"),
    "lone low surrogate": (rb'"\udc00"', "\ufffd"),
    "swapped surrogates": (rb'"\udc00\ud800"', "\ufffd\ufffd"),
    "pair": (rb'"\ud83d\ude00"', "😀"),
    "invalid utf-8": (b'"a\xff\xfeb"', "a\ufffd\ufffdb"),
    "raw tab": (b'"a\tb"', "a\tb"),
    "nan": (b"NaN", "nan"),
    "infinity": (b"-Infinity", "-inf"),
    "larger than any float": (b"1e999999", "inf"),
    "long number": (b"9" * 10_000, "9" * 10_000),
    "negative zero": (b"-0", 0),
    "duplicate keys": (b'1, "x": 2', 2),
    "empty key": (b'{"": 1}', {"": 1}),
}


@pytest.mark.req("K-ING-1")
@pytest.mark.parametrize("case", STRANGE)
def test_odd_values_are_sanitized_and_other_events_unchanged(wire: Wire, name: str, case: str) -> None:
    """The event is stored with a replacement for the odd value."""
    data, expected = STRANGE[case]
    before, after = (json.dumps(span(name, key, data={"y": "ok"})).encode() for key in ("s1", "s2"))
    response = wire.post(b'{"batch": [' + before + b"," + raw(name, data) + b"," + after + b"]}")
    assert (response.status_code, response.json()["rejected"]) == (200, []), response.text
    rows = {row["span_id"]: row["data"] for row in wire.spans(name)}
    assert rows == {"s1": {"y": "ok"}, "bad": {"x": expected}, "s2": {"y": "ok"}}


def deep_object(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


INVALID = {
    "10,000 levels": (lambda trace: raw(trace, b"[" * 10_000 + b"]" * 10_000), "data"),
    "500 levels": (lambda trace: raw(trace, deep_object(500)), "data"),
    "year 0": (lambda trace: json.dumps(span(trace, "bad", started_at="0000-01-01T00:00:00Z")).encode(), "started_at"),
    "year 9999": (
        lambda trace: json.dumps(span(trace, "bad", ended_at="9999-12-31T23:59:59-12:00")).encode(),
        "ended_at",
    ),
    "time 1e300": (lambda trace: json.dumps(span(trace, "bad", started_at=1e300)).encode(), "started_at"),
    "time -1e12": (lambda trace: json.dumps(span(trace, "bad", started_at=-1e12)).encode(), "started_at"),
    "time NaN": (lambda trace: json.dumps(span(trace, "bad", started_at=float("nan"))).encode(), "started_at"),
    "id of 1 MB": (lambda trace: json.dumps(span(trace, "i" * 10**6)).encode(), "span_id"),
    "session of 1 MB": (lambda trace: json.dumps(span(trace, "bad", session_id="s" * 10**6)).encode(), "session_id"),
    "id is a list": (lambda trace: json.dumps(span(trace, "bad", parent_id=["x"])).encode(), "parent_id"),
    "data is a list": (lambda trace: json.dumps(span(trace, "bad", data=[1])).encode(), "data"),
    "status": (lambda trace: json.dumps(span(trace, "bad", status="purple")).encode(), "status"),
    "not an object": (lambda trace: b'"text"', ""),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_events_are_rejected_with_their_path(wire: Wire, name: str, case: str) -> None:
    """The response has the index and the path. The other events are stored."""
    make, path = INVALID[case]
    good = json.dumps(span(name, "good")).encode()
    response = wire.post(b"[" + good + b"," + make(name) + b"]")
    assert response.status_code == 200, response.text
    assert [(bad["index"], bad["path"]) for bad in response.json()["rejected"]] == [(1, path)]
    assert [row["span_id"] for row in wire.spans(name)] == ["good"]


def test_long_names_are_truncated_with_a_count(wire: Wire, name: str) -> None:
    """A name of a megabyte ends with the number of characters removed."""
    wire.send(span(name, "a", name="n" * 1_000_000, kind="k" * 1000))
    (row,) = wire.spans(name)
    assert row["name"].startswith("nnn")
    assert row["name"].endswith("… (+999,500 characters)")
    assert len(row["kind"]) < 150


def test_large_tool_output_is_stored_completely(wire: Wire, name: str) -> None:
    """Five megabytes in one event are stored unchanged."""
    text = "0123456789abcdef " * 300_000
    wire.send(span(name, "a", kind="tool", data={"output": text, "tool": "cat"}))
    (row,) = wire.spans(name)
    assert row["data"] == {"tool": "cat"}
    assert row["payload"] == {"output": text}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"[",
        b"[1,",
        b"null",
        b"[]x",
        b"\x00",
        b"\xff\xfe",
        b'"',
        b"[[[[",
        b"{}}",
        b"[{}, {nope}]",
        b'{"batch": 7}',
        b"[{}]",
        b"{}",
    ],
)
def test_malformed_bodies_are_400(wire: Wire, body: bytes) -> None:
    """A body that is truncated, not JSON, or without a valid event gets an error message."""
    response = wire.post(body)
    assert response.status_code == 400, (body, response.text)
    assert response.json()["error"]


def test_decompression_bombs_and_too_many_events_are_413(wire: Wire) -> None:
    """A small body that expands beyond the limit is rejected before all of it is in memory."""
    bomb = gzip.compress(b"[" + b" " * (40 * 1024 * 1024) + b"]")
    assert len(bomb) < 100_000
    assert wire.post(bomb, content_encoding="gzip").status_code == 413
    too_many = b"[" + b",".join([b"{}"] * 10_001) + b"]"
    assert wire.post(too_many).status_code == 413


def test_gzip_with_too_many_members_is_rejected(wire: Wire, name: str) -> None:
    """Three members are one body. A hundred thousand are an attack."""
    parts = gzip.compress(b"[") + gzip.compress(json.dumps(span(name, "a")).encode()) + gzip.compress(b"]")
    assert wire.post(parts, content_encoding="gzip").json()["count"] == 1
    response = wire.post(gzip.compress(b" ") * 100_000, content_encoding="gzip")
    assert (response.status_code, response.json()["error"]) == (400, "The body has more than 1,000 gzip members.")


def test_a_byte_order_mark_is_ignored(wire: Wire, name: str) -> None:
    """Some shells write U+FEFF at the start of a file."""
    assert wire.post(b"\xef\xbb\xbf" + json.dumps(span(name, "a")).encode()).json()["count"] == 1


def test_an_envelope_can_have_other_members(wire: Wire, name: str) -> None:
    """Of duplicate keys, the last one is used. Other members and nested lists are ignored."""
    event = json.dumps(span(name, "a", data={"x": "\0"})).encode()
    body = b'{"batch": 1, "note": "batch", "batch" : \n [' + event + b'], "inner": {"events": [7]}}'
    assert wire.post(body).json() == {"success": True, "count": 1, "rejected": []}


def test_a_request_larger_than_a_commit_is_stored_completely(wire: Wire, name: str) -> None:
    """It is committed in chunks and answered once, with the index of each rejected event."""
    events = [span(name, f"{number}") for number in range(4_500)]
    events[2_100] = {"type": "span"}
    events[4_321]["data"] = {"big": 10**400}
    body = json.dumps(events).encode().replace(b"1" + b"0" * 400, b"1e999999")
    response = wire.post(body).json()
    assert (response["count"], [bad["index"] for bad in response["rejected"]]) == (4_499, [2_100])
    assert len(wire.spans(name)) == wire.session(name)["span_count"] == 4_499


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.characters(categories=["Cs"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ["type", "trace_id", "span_id", "parent_id", "kind", "name", "started_at", "ended_at", "timestamp", "ts"]
FIELDS += ["data", "properties", "payload", "status", "event", "session_id", "group_id", "metadata"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), anything, max_size=8), min_size=1, max_size=4))
def test_random_events_never_affect_a_valid_one(wire: Wire, events: list[dict[str, Any]]) -> None:
    """Each random event is stored or rejected. The valid event is always stored."""
    good = span("hypothesis", "good")
    response = wire.post(json.dumps([*events, good]).encode())
    assert response.status_code == 200, response.text
    body = response.json()
    assert body["count"] + len(body["rejected"]) == len(events) + 1
    assert all(bad["index"] < len(events) for bad in body["rejected"])


def test_a_slow_request_is_408(start_server: Any) -> None:
    """A steady trickle of bytes does not extend the deadline."""
    running = start_server("slow", ARIADNE_INGEST_READ_TIMEOUT_S="2")
    host, port = running.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as link:
        link.sendall(b"POST /ingest HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        began = time.monotonic()
        link.settimeout(0.2)
        response = b""
        while time.monotonic() - began < 15:
            try:
                link.sendall(b" ")
                if not (part := link.recv(4096)):
                    break
                response += part
            except TimeoutError:
                continue
            except OSError:
                break
        assert time.monotonic() - began < 10
        assert b"408" in response.split(b"\r\n")[0]


def test_an_incomplete_request_line_does_not_keep_a_connection_open() -> None:
    """Bytes reset the idle timeout only after a complete request line."""
    for line, is_closed in ((b"", True), (b"POST /ingest HTTP/1.1\r\n", False)):
        clock, transport = Clock(), StringTransport()
        channel = type("Channel", (HTTPChannel,), {})
        request_guard._limit_idle_time(channel)
        connection = channel()
        connection.callLater, connection.timeOut = clock.callLater, 60
        connection.makeConnection(transport)
        connection.dataReceived(line)
        for _ in range(70):
            connection.dataReceived(b"x")
            clock.advance(1)
        assert transport.disconnecting is is_closed
        connection.setTimeout(None)


def test_bodies_that_are_arriving_share_a_limit_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are written to a file, which many connections at once cannot use to exhaust the memory."""
    monkeypatch.setattr(request_guard, "_MAX_TOTAL_BYTES_IN_MEMORY", 1_000_000)
    guarded = request_guard._guarded_request_class(TwistedRequest, Clock(), ())

    def announce(length: int | None) -> TwistedRequest:
        channel = DummyChannel()
        channel.transport.fileno = lambda: 10
        request: TwistedRequest = guarded(channel)
        request.gotLength(length)
        return request

    requests = [announce(length) for length in (400_000, 1024 * 1024 + 1, None, 400_000, 400_000)]
    assert [isinstance(request.content, BytesIO) for request in requests] == [True, False, False, True, False]
    requests[0].connectionLost(Failure(ConnectionDone()))
    assert isinstance(announce(400_000).content, BytesIO)
    for request in requests:
        request.content.close()


def test_a_large_content_length_is_rejected_before_the_body_arrives(wire: Wire) -> None:
    """The rejection appears in the metrics like any other response."""
    metric = 'ariadne_ingest_requests_total{endpoint="/ingest",status="413"} '

    def rejected_counts() -> list[str]:
        lines = wire.http.get(wire.url + "/metrics").text.splitlines()
        return [line.removeprefix(metric) for line in lines if line.startswith(metric)]

    before = rejected_counts()
    host, port = wire.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as link:
        link.sendall(b"POST /ingest HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9999999999\r\n\r\n")
        response = b"".join(iter(lambda: link.recv(4096), b""))
        assert response.startswith(b"HTTP/1.1 413")
        assert b"100 Continue" not in response
    assert float(rejected_counts()[0]) == float(before[0] if before else 0) + 1
