"""Faults of one side reach the other as on a direct connection, and those of the recorder reach neither."""

from __future__ import annotations

import os
import signal
import socket
import threading

import psutil
import pytest
from compact.gateway.frames import Kind
from gateways import Gateway, Peer, ScriptedUpstream, connect, running_gateway
from ports import reserve_port
from wait import wait_until

MEGABYTE = 1 << 20
HEAD = b"POST /custom/local/v1/messages HTTP/1.1\r\nHost: localhost\r\n"
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b"5\r\nhello\r\n"


def start_stream(gateway: Gateway, upstream: ScriptedUpstream) -> Peer:
    """Return a client that has the head and a first chunk of a stream."""
    upstream.start()
    peer = connect(gateway.port)
    peer.send(HEAD + b"Content-Length: 2\r\n\r\n{}")
    assert wait_until(lambda: upstream.peer.received.endswith(b"{}"))
    upstream.peer.send(STREAM + CHUNK)
    peer.read(len(STREAM + CHUNK))
    return peer


def kinds(gateway: Gateway) -> list[Kind]:
    return [frame.kind for frame in gateway.frames()]


def aborting_side(gateway: Gateway) -> str:
    """Return the side that a recorded exchange was aborted by."""
    assert wait_until(lambda: Kind.ABORTED in kinds(gateway))
    return next(frame.json()["by"] for frame in gateway.frames() if frame.kind is Kind.ABORTED)


def test_a_reset_of_the_upstream_is_a_reset_after_its_last_byte(gateway, upstream):
    """The agent gets what was sent, and then the reset that the upstream sent."""
    peer = start_stream(gateway, upstream)
    upstream.peer.send(CHUNK)
    upstream.peer.reset()
    with pytest.raises(ConnectionResetError):
        peer.read_to_end()
    assert peer.received == STREAM + CHUNK + CHUNK
    assert aborting_side(gateway) == "upstream"


def test_an_end_in_the_middle_is_an_end(gateway, upstream):
    """A truncated stream is truncated for the agent, and not reset."""
    peer = start_stream(gateway, upstream)
    upstream.peer.close()
    assert peer.read_to_end() == b""
    assert aborting_side(gateway) == "upstream"


def test_a_reset_of_the_agent_reaches_the_upstream(gateway, upstream):
    """An agent that is killed in a stream stops the upstream."""
    peer = start_stream(gateway, upstream)
    peer.reset()
    assert wait_until(lambda: isinstance(upstream.peer.error, ConnectionResetError))
    assert aborting_side(gateway) == "client"


def test_a_canceled_request_ends_the_upstream_connection(gateway, upstream):
    """An agent that closes its connection closes that of the upstream, without waiting for the answer."""
    peer = start_stream(gateway, upstream)
    peer.close()
    assert wait_until(lambda: isinstance(upstream.peer.error, EOFError))


def test_a_half_closed_agent_still_gets_its_answer(gateway, upstream):
    """The end of an agent's bytes is passed on, and the answer comes back."""
    peer = start_stream(gateway, upstream)
    peer.socket.shutdown(socket.SHUT_WR)
    assert wait_until(lambda: isinstance(upstream.peer.error, EOFError))
    upstream.peer.send(CHUNK + b"0\r\n\r\n")
    upstream.peer.close()
    assert peer.read_to_end() == CHUNK + b"0\r\n\r\n"
    assert wait_until(lambda: Kind.ANSWER_END in kinds(gateway))
    assert Kind.ABORTED not in kinds(gateway)


def test_an_unreachable_upstream_is_a_lost_connection(upstream, tmp_path):
    """No answer is invented. The log of the gateway names the upstream."""
    with (
        reserve_port() as port,
        running_gateway(tmp_path, addresses={"local": f"http://127.0.0.1:{port}"}) as gateway,
    ):
        peer = connect(gateway.port)
        peer.send(HEAD + b"\r\n")
        with pytest.raises(ConnectionResetError):
            peer.read_to_end()
        assert peer.received == b""
        assert gateway.metrics()['connect_errors_total{upstream="local"}'] == 1
        assert f"Cannot connect to http://127.0.0.1:{port}" in (tmp_path / "log").read_text()


def test_an_upstream_that_closes_while_idle_closes_the_agents_connection(gateway, upstream):
    """No later request meets a connection that only the gateway believes in."""
    peer = start_stream(gateway, upstream)
    upstream.peer.send(b"0\r\n\r\n")
    peer.read(5)
    upstream.peer.close()
    assert peer.read_to_end() == b""


def test_a_slow_reader_slows_the_upstream_and_not_the_memory(gateway, upstream):
    """100 MB that the agent does not read stay with the upstream. Then they all arrive."""
    peer = start_stream(gateway, upstream)
    body = b"%x\r\n" % (100 * MEGABYTE) + bytes(100 * MEGABYTE) + b"\r\n0\r\n\r\n"
    upstream.peer.socket.settimeout(1)
    # Nothing reads the stream: only the buffers of the kernel and of the gateway fill.
    with pytest.raises(TimeoutError):
        upstream.peer.send(body)
    assert psutil.Process(gateway.process.pid).memory_info().rss < 60 * MEGABYTE
    sent = gateway.metrics()["sent_bytes_total"]
    assert sent < 50 * MEGABYTE
    peer.close()


@pytest.mark.parametrize("direction", ["request", "answer"])
def test_100_mb_arrive_whole(gateway, upstream, direction):
    """A body of 100 MB passes in both directions, with little memory."""
    size = 100 * MEGABYTE
    peer = connect(gateway.port)
    if direction == "request":
        peer.send(HEAD + b"Content-Length: %d\r\n\r\n" % size)
        peer.send(bytes(size))
        assert wait_until(lambda: upstream.peer.received.endswith(bytes(100)) and len(upstream.peer.received) > size)
        upstream.peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        peer.read_head()
    else:
        peer.send(HEAD + b"Content-Length: 0\r\n\r\n")
        upstream.peer.socket.settimeout(60)
        assert wait_until(lambda: upstream.peer.received.endswith(b"\r\n\r\n"))
        upstream.peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        peer.read_head()
        sender = threading.Thread(target=upstream.peer.send, args=[bytes(size)])
        sender.start()
        received = 0
        while received < size:
            received += len(peer.socket.recv(MEGABYTE))
        sender.join()
        assert received == size
    assert psutil.Process(gateway.process.pid).memory_info().rss < 60 * MEGABYTE


def test_a_killed_recorder_costs_a_gap_and_nothing_else(gateway, upstream):
    """The stream goes on, a new recorder starts, and it learns which exchange is incomplete."""
    peer = start_stream(gateway, upstream)
    assert wait_until(lambda: Kind.ANSWER_BODY in kinds(gateway))
    old = gateway.recorder_pid()
    os.kill(old, signal.SIGKILL)
    assert wait_until(lambda: gateway.recorder_pid() not in {old, 0})
    upstream.peer.send(CHUNK + b"0\r\n\r\n")
    assert peer.read(len(CHUNK) + 5) == CHUNK + b"0\r\n\r\n"
    assert wait_until(lambda: Kind.GAP in kinds(gateway))
    gap = next(frame.json() for frame in gateway.frames() if frame.kind is Kind.GAP)
    assert gap["exchanges"] == [1]
    # What comes after the gap is recorded again, and nothing of the incomplete exchange.
    peer.send(HEAD + b"Content-Length: 2\r\n\r\n{}")
    assert wait_until(lambda: kinds(gateway)[-1] is Kind.REQUEST_END)
    frames = gateway.frames()
    gap_at = next(index for index, frame in enumerate(frames) if frame.kind is Kind.GAP)
    assert {frame.exchange for frame in frames[gap_at + 1 :]} == {2}


def test_a_stopped_recorder_is_not_felt_and_its_copies_are_bounded(upstream, tmp_path):
    """With a recorder that is stopped, streams go on, memory does not grow, and a gap is counted."""
    with running_gateway(tmp_path, addresses={"local": upstream.url}, buffer_bytes=4 * MEGABYTE) as gateway:
        recorder = gateway.recorder_pid()
        os.kill(recorder, signal.SIGSTOP)
        peer = connect(gateway.port)
        for _ in range(20):
            peer.send(HEAD + b"Content-Length: %d\r\n\r\n" % MEGABYTE + bytes(MEGABYTE))
            assert wait_until(lambda: upstream.peer.received.endswith(bytes(100)))
            upstream.peer.received.clear()
            upstream.peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            peer.read_head()
        metrics = gateway.metrics()
        assert metrics["queue_bytes"] <= 4 * MEGABYTE
        assert metrics["gaps_total"] > 10
        assert psutil.Process(gateway.process.pid).memory_info().rss < 60 * MEGABYTE
        os.kill(recorder, signal.SIGCONT)
        assert wait_until(lambda: gateway.metrics()["queue_bytes"] == 0)
        peer.send(HEAD + b"Content-Length: 2\r\n\r\n{}")
        assert wait_until(lambda: Kind.GAP in kinds(gateway))
        named = [number for frame in gateway.frames() if frame.kind is Kind.GAP for number in frame.json()["exchanges"]]
        assert len(named) == metrics["gaps_total"]


def test_a_recorder_that_cannot_start_is_not_felt(upstream, tmp_path):
    """Streams work although the recorder ends at once, again and again."""
    with running_gateway(tmp_path, addresses={"local": upstream.url}, recorder=("false",)) as gateway:
        assert wait_until(lambda: gateway.metrics()["recorder_restarts_total"] >= 2)
        start_stream(gateway, upstream)


def test_a_request_that_arrives_byte_by_byte(gateway, upstream):
    """The head of a request is read wherever it is cut."""
    peer = connect(gateway.port)
    for byte in HEAD + b"Content-Length: 2\r\n\r\n{}":
        peer.send(bytes([byte]))
    assert wait_until(lambda: upstream.peer.received.endswith(b"\r\n\r\n{}"))
    assert upstream.peer.received.startswith(b"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1:")


def test_two_upstreams_on_one_connection(upstream, tmp_path):
    """Pipelined requests for two upstreams are answered in order."""
    with (
        ScriptedUpstream() as other,
        running_gateway(tmp_path, addresses={"local": upstream.url, "other": other.url}) as gateway,
    ):
        peer = connect(gateway.port)
        peer.send(
            HEAD + b"Content-Length: 2\r\n\r\n{}POST /custom/other/b HTTP/1.1\r\nHost: localhost\r\n\r\n"
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        first = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1"
        assert wait_until(lambda: upstream.peer.received.endswith(b"{}"))
        upstream.peer.send(first)
        assert peer.read(len(first)) == first
        assert wait_until(lambda: other.peer.received.startswith(b"POST /b HTTP/1.1"))
        other.peer.send(first)
        assert peer.read(len(first)) == first
        assert b'"status": "ok"' in peer.read_to_end()
