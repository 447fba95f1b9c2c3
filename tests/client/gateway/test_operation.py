"""Shutdown, upgrade, health and metrics."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import psutil
import pytest
from compact.gateway.frames import Kind
from gateways import Gateway, Peer, ScriptedUpstream, connect, running_gateway
from wait import wait_until

REQUEST = b"POST /run/label/custom/local/v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
END = b"0\r\n\r\n"


def start_stream(gateway: Gateway, upstream: ScriptedUpstream) -> tuple[Peer, Peer]:
    """Return both ends of a stream that has started."""
    upstream.start()
    peer = connect(gateway.port)
    peer.send(REQUEST)
    assert wait_until(lambda: upstream.peer.received.endswith(b"{}"))
    upstream.peer.send(STREAM)
    peer.read(len(STREAM))
    return peer, upstream.peer


def test_a_stream_finishes_during_a_shutdown(gateway, upstream):
    """After SIGTERM the stream goes on, its copy is complete, and then the process ends with 0."""
    peer, provider = start_stream(gateway, upstream)
    idle = connect(gateway.port)
    gateway.process.send_signal(signal.SIGTERM)
    assert idle.read_to_end() == b""
    provider.send(END)
    assert peer.read_to_end() == END
    assert gateway.process.wait(20) == 0
    assert gateway.frames()[-1].kind is Kind.ANSWER_END


def test_a_second_signal_ends_streams(gateway, upstream):
    """The second signal does not wait."""
    peer, _ = start_stream(gateway, upstream)
    gateway.process.send_signal(signal.SIGTERM)
    assert wait_until(lambda: b"Waiting for" in (gateway.directory / "log").read_bytes())
    gateway.process.send_signal(signal.SIGTERM)
    with pytest.raises(ConnectionResetError):
        peer.read_to_end()
    assert gateway.process.wait(20) == 0
    assert gateway.frames()[-1].json()["by"] == "gateway"


def test_an_upgrade_drops_no_stream_and_refuses_no_connection(gateway, upstream):
    """A new process takes over the socket, and the old one finishes its stream."""
    peer, provider = start_stream(gateway, upstream)
    old = gateway.json("/status")["pid"]
    gateway.process.send_signal(signal.SIGUSR2)
    assert wait_until(lambda: gateway.json("/status")["pid"] != old)
    assert wait_until(lambda: not _listens(old))
    second, other_provider = start_stream(gateway, upstream)
    provider.send(END)
    assert peer.read_to_end() == END
    other_provider.send(END)
    assert second.read(len(END)) == END
    # A supervisor sees one process for as long as either of them runs.
    assert gateway.process.poll() is None


def _listens(pid: int) -> bool:
    return any(item.status == psutil.CONN_LISTEN for item in psutil.Process(pid).net_connections())


def test_an_upgrade_that_fails_changes_nothing(gateway, upstream, tmp_path):
    """If the new process cannot start, the old one continues."""
    peer, provider = start_stream(gateway, upstream)
    (tmp_path / "state/compact/gateway/key").unlink()
    children = psutil.Process(gateway.process.pid).children()
    gateway.process.send_signal(signal.SIGUSR2)
    successor: list[psutil.Process] = []

    def has_started() -> bool:
        successor[:] = [item for item in psutil.Process(gateway.process.pid).children() if item not in children]
        return bool(successor)

    assert wait_until(has_started)
    successor[0].kill()
    assert wait_until(lambda: b"The upgrade failed" in (tmp_path / "log").read_bytes())
    provider.send(END)
    assert peer.read(len(END)) == END
    start_stream(gateway, upstream)


def test_a_leased_gateway_stops_after_its_last_agent(upstream, tmp_path):
    """A gateway that `compactctl run` started ends with the last run, and knows what each one asked for."""
    with running_gateway(tmp_path, addresses={"local": upstream.url}, is_leased=True) as gateway:
        leases = [connect(gateway.port) for _ in range(2)]
        for number, lease in enumerate(leases):
            lease.send(b"GET /lease/l%d?http=%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % (number, number))
            lease.read_head()
        upgrade = b"Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        peer = connect(gateway.port)
        peer.send(b"GET /run/l1/custom/local/v1/responses HTTP/1.1\r\n" + upgrade)
        assert peer.read_to_end().startswith(b"HTTP/1.1 426 ")
        peer = connect(gateway.port)
        peer.send(b"GET /run/l0/custom/local/v1/responses HTTP/1.1\r\n" + upgrade)
        assert wait_until(lambda: upstream.peer.received.endswith(b"\r\n\r\n"))
        peer.close()
        upstream.peer.close()
        assert gateway.json("/sessions/l0") == {"requests": 1, "session": None}
        leases[0].close()
        assert wait_until(lambda: gateway.json("/status")["clients"] == 1)
        leases[1].close()
        assert gateway.process.wait(20) == 0


def test_health_and_metrics(gateway, upstream):
    """Requests, bytes and gaps are counted, in the format of Prometheus."""
    _, provider = start_stream(gateway, upstream)
    provider.send(END)
    metrics = gateway.metrics()
    assert gateway.json("/healthz")["status"] == "ok"
    assert metrics['requests_total{upstream="local"}'] == 1
    assert metrics['answers_total{upstream="local",status="2xx"}'] == 1
    assert metrics["received_bytes_total"] >= len(REQUEST)
    assert metrics["gaps_total"] == 0
    assert metrics["recorder_restarts_total"] == 0


def test_the_relay_loads_neither_redaction_nor_a_tokenizer(gateway):
    """The relay has no native library of either."""
    maps = Path(f"/proc/{gateway.process.pid}/maps").read_text()
    assert "hyperscan" not in maps
    assert "tiktoken" not in maps
    assert "pydantic" not in maps


def test_a_recorder_reports_the_session_of_a_client(upstream, tmp_path):
    """The last session of a client is kept for `compactctl run`, and figures are in the metrics."""
    code = (
        "import os, time\nfrom compact.gateway.frames import *\n"
        "os.write(0, encode_json(Kind.SESSION, 0, 1.0, {'client': 'label', 'session_id': 's1'}))\n"
        "os.write(0, encode_json(Kind.FIGURES, 0, 1.0, {'events_total': 7}))\n"
        "os.write(0, encode(Kind.SESSION, 0, 1.0, b'[broken'))\n"
        "while os.read(0, 1000): pass\n"
    )
    with running_gateway(tmp_path, addresses={"local": upstream.url}, recorder=(sys.executable, "-c", code)) as gateway:
        assert wait_until(lambda: gateway.metrics().get("recorder_events_total") == 7)
        assert gateway.json("/sessions/label")["session"] == {"client": "label", "session_id": "s1"}
