"""Whatever a client sends is stored, mended with a mark, or refused with a path; its neighbours never pay for it."""

from __future__ import annotations

import gzip
import json
import socket
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.web.http import HTTPChannel

from ariadne.runtime import request_guard

from ..conftest import Wire

T0 = "2026-11-16T04:00:00Z"


def span(trace: str, span_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "span", "trace_id": trace, "span_id": span_id, "started_at": T0, "ended_at": T0, **more}


def raw(trace: str, data: bytes) -> bytes:
    """One span whose data is exactly these bytes."""
    return b'{"type": "span", "trace_id": "%b", "span_id": "bad", "started_at": "%b", "data": {"x": %b}}' % (
        trace.encode(),
        T0.encode(),
        data,
    )


# What JSON parsers pass and databases, or readers, do not.
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
    "beyond all floats": (b"1e999999", "inf"),
    "long number": (b"9" * 10_000, "9" * 10_000),
    "negative zero": (b"-0", 0),
    "duplicate keys": (b'1, "x": 2', 2),
    "empty key": (b'{"": 1}', {"": 1}),
}


@pytest.mark.req("K-ING-1")
@pytest.mark.parametrize("case", STRANGE)
def test_strange_values_are_mended_beside_good_neighbours(wire: Wire, name: str, case: str) -> None:
    """The event is stored with a mark where it could not be kept, and its neighbours are as they were."""
    data, expected = STRANGE[case]
    before, after = (json.dumps(span(name, key, data={"y": "ok"})).encode() for key in ("s1", "s2"))
    answer = wire.post(b'{"batch": [' + before + b"," + raw(name, data) + b"," + after + b"]}")
    assert (answer.status_code, answer.json()["rejected"]) == (200, []), answer.text
    rows = {row["span_id"]: row["data"] for row in wire.spans(name)}
    assert rows == {"s1": {"y": "ok"}, "bad": {"x": expected}, "s2": {"y": "ok"}}


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


REFUSED = {
    "10,000 levels": (lambda trace: raw(trace, b"[" * 10_000 + b"]" * 10_000), "data"),
    "500 levels": (lambda trace: raw(trace, nested(500)), "data"),
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


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_stored_is_refused_with_a_path(wire: Wire, name: str, case: str) -> None:
    """The answer says which event and which part of it; the others are stored."""
    make, path = REFUSED[case]
    good = json.dumps(span(name, "good")).encode()
    answer = wire.post(b"[" + good + b"," + make(name) + b"]")
    assert answer.status_code == 200, answer.text
    assert [(bad["index"], bad["path"]) for bad in answer.json()["rejected"]] == [(1, path)]
    assert [row["span_id"] for row in wire.spans(name)] == ["good"]


def test_long_names_are_cut_with_a_mark(wire: Wire, name: str) -> None:
    """A name of a megabyte is shown on one line, and says how much is missing."""
    wire.send(span(name, "a", name="n" * 1_000_000, kind="k" * 1000))
    (row,) = wire.spans(name)
    assert row["name"].startswith("nnn")
    assert row["name"].endswith("… (+999,500 characters)")
    assert len(row["kind"]) < 150


def test_a_gigantic_tool_output_is_stored_whole(wire: Wire, name: str) -> None:
    """Five megabytes in one event come back as they were."""
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
def test_broken_bodies_are_a_400_or_hold_nothing(wire: Wire, body: bytes) -> None:
    """Half a body is refused with a sentence."""
    answer = wire.post(body)
    assert answer.status_code == 400, (body, answer.text)
    assert answer.json()["error"]


def test_bombs_and_oversized_bodies_are_cut(wire: Wire) -> None:
    """A small body that inflates beyond the limit is refused before it is all in memory."""
    bomb = gzip.compress(b"[" + b" " * (40 * 1024 * 1024) + b"]")
    assert len(bomb) < 100_000
    assert wire.post(bomb, content_encoding="gzip").status_code == 413
    too_many = b"[" + b",".join([b"{}"] * 10_001) + b"]"
    assert wire.post(too_many).status_code == 413


def test_a_packed_file_of_too_many_parts_is_refused(wire: Wire, name: str) -> None:
    """Some members are one body; a hundred thousand are an attack."""
    parts = gzip.compress(b"[") + gzip.compress(json.dumps(span(name, "a")).encode()) + gzip.compress(b"]")
    assert wire.post(parts, content_encoding="gzip").json()["count"] == 1
    answer = wire.post(gzip.compress(b" ") * 100_000, content_encoding="gzip")
    assert (answer.status_code, answer.json()["error"]) == (400, "The body has more than 1,000 gzip members.")


def test_a_body_may_begin_with_a_mark_of_its_encoding(wire: Wire, name: str) -> None:
    """Some shells put U+FEFF before what they send."""
    assert wire.post(b"\xef\xbb\xbf" + json.dumps(span(name, "a")).encode()).json()["count"] == 1


def test_the_list_of_an_envelope_is_found_beside_other_members(wire: Wire, name: str) -> None:
    """A body that has to be taken apart: the member counts, not a text or a number of the same name."""
    event = json.dumps(span(name, "a", data={"x": "\0"})).encode()
    body = b'{"batch": 1, "note": "batch", "batch" : \n [' + event + b'], "inner": {"events": [7]}}'
    assert wire.post(body).json() == {"success": True, "count": 1, "rejected": []}


def test_a_request_larger_than_a_commit_is_stored_whole(wire: Wire, name: str) -> None:
    """It is committed in parts and answered once, with every refusal at its own place."""
    events = [span(name, f"{number}") for number in range(4_500)]
    events[2_100] = {"type": "span"}
    events[4_321]["data"] = {"big": 10**400}
    body = json.dumps(events).encode().replace(b"1" + b"0" * 400, b"1e999999")
    answer = wire.post(body).json()
    assert (answer["count"], [bad["index"] for bad in answer["rejected"]]) == (4_499, [2_100])
    assert len(wire.spans(name)) == wire.session(name)["span_count"] == 4_499


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.characters(categories=["Cs"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ["type", "trace_id", "span_id", "parent_id", "kind", "name", "started_at", "ended_at", "timestamp", "ts"]
FIELDS += ["data", "properties", "payload", "status", "event", "session_id", "group_id", "metadata"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), anything, max_size=8), min_size=1, max_size=4))
def test_any_event_at_all_is_answered(wire: Wire, events: list[dict[str, Any]]) -> None:
    """Random events: stored or refused one by one, and a good one beside them is always stored."""
    good = span("hypothesis", "good")
    answer = wire.post(json.dumps([*events, good]).encode())
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["count"] + len(body["rejected"]) == len(events) + 1
    assert all(bad["index"] < len(events) for bad in body["rejected"])


def test_a_slow_sender_is_cut_off(start_server: Any) -> None:
    """A request that trickles in is ended, however steadily it trickles."""
    running = start_server("slow", ARIADNE_INGEST_READ_TIMEOUT_S="2")
    host, port = running.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as link:
        link.sendall(b"POST /ingest HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        began = time.monotonic()
        link.settimeout(0.2)
        answer = b""
        while time.monotonic() - began < 15:
            try:
                link.sendall(b" ")
                if not (part := link.recv(4096)):
                    break
                answer += part
            except TimeoutError:
                continue
            except OSError:
                break
        assert time.monotonic() - began < 10
        assert b"408" in answer.split(b"\r\n")[0]


def test_half_a_first_line_does_not_hold_a_connection() -> None:
    """Byte by byte, for ever: cut when the idle time is over. Once there is a request, bytes count as life."""
    for line, is_cut in ((b"", True), (b"POST /ingest HTTP/1.1\r\n", False)):
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
        assert transport.disconnecting is is_cut
        connection.setTimeout(None)


def test_an_oversized_body_is_refused_before_it_is_read(wire: Wire) -> None:
    """The length alone is enough to refuse; nothing of it has to arrive. It is counted as any other answer is."""
    counted = 'ariadne_ingest_requests_total{endpoint="/ingest",status="413"} '

    def refused() -> list[str]:
        lines = wire.http.get(wire.url + "/metrics").text.splitlines()
        return [line.removeprefix(counted) for line in lines if line.startswith(counted)]

    before = refused()
    host, port = wire.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as link:
        link.sendall(b"POST /ingest HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9999999999\r\n\r\n")
        answer = b"".join(iter(lambda: link.recv(4096), b""))
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"100 Continue" not in answer
    assert float(refused()[0]) == float(before[0] if before else 0) + 1
