"""A compactor that hangs, dies or is slow costs a warning and nothing else."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

import psutil
import pytest
from client.gateway.compact_mode.conftest import WINDOW, Start
from client.gateway.compact_mode.test_requests import CLAUDE, conversation, post
from compact.gateway.frames import Kind
from gateways import Gateway, connect
from providers.server import StrictProvider
from wait import wait_until

BODY = json.dumps({"model": "claude-opus-4-6", "max_tokens": 10, "messages": conversation(20)}).encode()
SILENT = (sys.executable, "-c", "import os\nwhile os.read(0, 1 << 20): pass")


def rewrites(gateway: Gateway) -> list[str]:
    return [frame.json()["rewrite"] for frame in gateway.frames() if frame.kind is Kind.OPEN]


def compactor_of(gateway: Gateway) -> dict[str, Any]:
    status: dict[str, Any] = gateway.json("/status")["compactor"]
    return status


def test_the_original_is_sent_after_the_deadline(start: Start, provider: StrictProvider):
    """A compactor that never answers delays a request by the deadline, and is reported."""
    gateway = start(compactor=SILENT, deadline_s=0.3)
    started_at = time.monotonic()
    assert post(gateway, BODY, CLAUDE)[0] == 200
    assert 0.3 <= time.monotonic() - started_at < 3
    assert provider.requests[-1].body == json.loads(BODY)
    assert wait_until(lambda: rewrites(gateway) == ["late"])
    assert gateway.metrics()['uncompacted_total{reason="late"}'] == 1
    assert b"sent without a check" in (gateway.directory / "log").read_bytes()


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_a_compactor_that_dies_or_hangs_is_replaced(start, provider, fault):
    """The request that waits is sent as it came, before its deadline, and the next one is compacted again."""
    gateway = start(deadline_s=60.0)
    assert post(gateway, BODY, CLAUDE)[0] == 200
    assert len(provider.requests[-1].messages) < 41
    pid = compactor_of(gateway)["pid"]
    os.kill(pid, fault)
    started_at = time.monotonic()
    assert post(gateway, BODY, CLAUDE)[0] == 200
    assert time.monotonic() - started_at < 20
    assert len(provider.requests[-1].messages) == 41
    assert wait_until(lambda: compactor_of(gateway)["pid"] not in (0, pid) and not psutil.pid_exists(pid), timeout_s=30)
    assert wait_until(
        lambda: post(gateway, BODY, CLAUDE)[0] == 200 and len(provider.requests[-1].messages) < 41, timeout_s=30
    )
    assert compactor_of(gateway)["restarts"] >= 1


def test_a_request_that_was_sent_without_a_check_and_is_too_long_is_checked_after_all(start, provider):
    """The provider rejects it while the compactor starts again. The agent waits, and sees no error."""
    provider.window_tokens = WINDOW
    gateway = start(deadline_s=60.0)
    assert post(gateway, BODY, CLAUDE)[0] == 200
    os.kill(compactor_of(gateway)["pid"], signal.SIGKILL)
    assert post(gateway, BODY, CLAUDE)[0] == 200
    assert len(provider.overflows) == 1
    assert wait_until(lambda: rewrites(gateway) == ["compacted", "unavailable", "recovered"])


def test_a_compactor_that_cannot_start_is_no_fault_of_the_agent(start, provider, tmp_path):
    """Invalid settings are reported, and requests go on."""
    (tmp_path / "compact.yaml").write_text("policy:\n  trigger_pct: 7\n")
    gateway = start()
    assert wait_until(lambda: b"trigger_pct" in (tmp_path / "log").read_bytes(), timeout_s=30)
    assert post(gateway, BODY, CLAUDE)[0] == 200
    assert len(provider.requests[-1].messages) == 41


def test_an_agent_that_leaves_while_its_request_waits(start, provider):
    """Nothing is sent for it, and the next connection is served."""
    gateway = start(compactor=SILENT, deadline_s=0.5)
    peer = connect(gateway.port)
    head = f"POST /anthropic/v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(BODY)}\r\n\r\n"
    peer.send(head.encode() + BODY)
    assert wait_until(lambda: gateway.metrics()["received_bytes_total"] > len(BODY))
    peer.reset()
    assert post(gateway, BODY, CLAUDE)[0] == 200
    assert len(provider.requests) == 1


def test_a_body_that_is_too_large_is_forwarded_while_it_arrives(start, provider):
    """There is no limit of our own. 40 MB arrive whole."""
    gateway = start()
    messages = [{"role": "user", "content": "x" * 40_000_000}]
    body = json.dumps({"model": "claude-opus-4-6", "max_tokens": 10, "messages": messages}).encode()
    assert post(gateway, body)[0] == 200
    assert provider.requests[-1].body == json.loads(body)
    assert gateway.metrics()['uncompacted_total{reason="too_large"}'] == 1


def test_expect_continue_pipelines_and_half_closed_connections(start, provider):
    """A client that waits for 100, one that sends two requests at once, and one that closes its side."""
    gateway = start()
    head = f"POST /anthropic/v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(BODY)}\r\n"
    peer = connect(gateway.port)
    peer.send(f"{head}Expect: 100-continue\r\n\r\n".encode())
    assert peer.read_head().startswith(b"HTTP/1.1 100 ")
    peer.send(BODY)
    peer.send(head.encode() + b"Connection: close\r\n\r\n" + BODY)
    peer.socket.shutdown(1)
    answers = peer.read_to_end()
    assert answers.count(b'"type": "message"') == 2
    assert [len(request.messages) < 41 for request in provider.requests] == [True, True]
