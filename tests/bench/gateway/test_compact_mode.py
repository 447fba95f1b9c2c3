"""The time that compact mode adds to a request, beside `preflight` in process, in one run.

A prompt of 400 kB grows by one call and its result with each request. Nothing is compacted, which is the usual case.
The goal is at most `preflight` plus 2 ms.
"""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from bench.gateway.test_recorder import PROMPT_BYTES, exchanges
from compact import CompactConfig, CompactManager
from compact.gateway.settings import COMPACTOR
from gateways import running_gateway

LOAD = Path(__file__).with_name("load.py")
COUNT, WARM = 40, 8
WINDOW = 1_000_000


class Connection:
    """One connection, on which a request is timed up to the end of its short answer."""

    def __init__(self, port: int, path: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nx-api-key: k\r\nx-claude-code-session-id: grow\r\n"

    def send_ms(self, body: bytes) -> float:
        data = f"{self._head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        started = time.perf_counter()
        self._socket.sendall(data)
        answer = b""
        while not answer.endswith(b"{}"):
            answer += self._socket.recv(1 << 16)
        return (time.perf_counter() - started) * 1e3


def test_added_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compact mode, the gateway without it, and `preflight` in process take turns."""
    monkeypatch.setenv("COMPACT_MAX_CONTEXT_TOKENS", str(WINDOW))
    monkeypatch.chdir(tmp_path)
    records = exchanges(COUNT, size=PROMPT_BYTES, name="grow")
    bodies = [json.dumps({**record["body"], "model": "gpt-5"}).encode() for record in records]
    manager = CompactManager(CompactConfig("gpt-5", WINDOW))
    process = subprocess.Popen([sys.executable, str(LOAD), "provider"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    addresses = {"anthropic": f"http://127.0.0.1:{int(process.stdout.readline())}"}
    times: dict[str, list[float]] = {"preflight": [], "observe": [], "compact": []}
    plain, busy = tmp_path / "plain", tmp_path / "busy"
    plain.mkdir()
    busy.mkdir()
    compact: dict[str, Any] = {"compactor": COMPACTOR, "compact_scope": "all", "deadline_s": 60.0}
    try:
        with (
            running_gateway(plain, addresses=addresses, recorder=()) as observing,
            running_gateway(busy, addresses=addresses, recorder=(), **compact) as compacting,
        ):
            one = Connection(observing.port, "/anthropic/v1/messages")
            two = Connection(compacting.port, "/anthropic/v1/messages")
            shared: list[Any] = []
            for body in bodies:
                fields = json.loads(body)
                shared += fields["messages"][len(shared) :]
                started = time.perf_counter()
                manager.preflight("grow", shared, tools=fields["tools"], instructions=fields["system"])
                times["preflight"].append((time.perf_counter() - started) * 1e3)
                times["observe"].append(one.send_ms(body))
                times["compact"].append(two.send_ms(body))
    finally:
        process.kill()
        process.communicate()
    medians = {name: statistics.median(values[WARM:]) for name, values in times.items()}
    added = medians["compact"] - medians["observe"]
    sizes = f"{len(bodies[0]) / 1e3:.0f} to {len(bodies[-1]) / 1e3:.0f} kB"
    figures = ", ".join(f"{name} {value:.2f}" for name, value in medians.items())
    print(f"\n{sizes}, medians in ms: {figures}")
    print(f"Compact mode adds {added:.2f}, which is preflight + {added - medians['preflight']:.2f} (goal 2).")
    assert added < medians["preflight"] + 25
