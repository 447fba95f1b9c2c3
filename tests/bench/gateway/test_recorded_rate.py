"""Requests per second that are recorded, with relay and recorder on one core, and provider and load on the other.

Sessions grow by an answer and a message per request. Independent requests share nothing with each other.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from bench.gateway.test_latency import cpu, load
from gateways import Gateway, running_gateway
from wait import wait_until

AGENTS, BODY_BYTES, SECONDS = 16, 100_000, 6.0


@pytest.fixture
def gateway(provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    monkeypatch.setenv("ARIADNE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("ARIADNE_API_KEY", "k")
    recorder = (sys.executable, "-m", "compact.gateway.recorder")
    with running_gateway(tmp_path, addresses={"anthropic": provider}, recorder=recorder) as running:
        yield running


@pytest.mark.parametrize(("kind", "length"), [("growing", 20), ("independent", 1)])
def test_recorded_requests(gateway: Gateway, kind: str, length: int) -> None:
    """Print what arrives at rising rates. A request that is not recorded is a gap."""
    processes = [psutil.Process(gateway.process.pid), psutil.Process(gateway.recorder_pid())]
    everyone = os.sched_getaffinity(0)
    cores = sorted(everyone)[:2]
    for process in processes:
        for thread in process.threads():
            os.sched_setaffinity(thread.id, {cores[0]})
    try:
        os.sched_setaffinity(0, {cores[-1]})
        # The first requests find a recorder that still starts.
        _measure(gateway, processes, AGENTS, length)
        print(f"\n{kind}: offered/s   recorded/s   gaps   CPU ms per request (relay + recorder)   late p99 ms")
        for rate in (100, 200, 400, 600):
            _measure(gateway, processes, rate, length)
    finally:
        os.sched_setaffinity(0, everyone)


def _measure(gateway: Gateway, processes: list[psutil.Process], rate: float, length: int) -> None:
    before, used = gateway.metrics(), [cpu(process) for process in processes]
    result = load("sessions", f"{gateway.url}/anthropic", BODY_BYTES, AGENTS, rate, SECONDS, length)
    gaps = before["gaps_total"]

    def counts() -> tuple[float, float]:
        metrics = gateway.metrics()
        recorded = metrics.get("recorder_exchanges", 0) - before.get("recorder_exchanges", 0)
        return recorded, metrics["gaps_total"] - gaps

    wait_until(lambda: sum(counts()) >= result["sent"], timeout_s=60)
    recorded, missed = counts()
    relay, recorder = [(cpu(process) - start) * 1e3 for process, start in zip(processes, used, strict=True)]
    if rate == AGENTS:
        return
    each = f"{relay / result['sent']:.2f} + {recorder / max(recorded, 1):.2f}"
    print(f"{rate:14.0f} {recorded / result['seconds']:12.0f} {missed:7.0f} {each:>28} {result['late_p99_ms']:21.1f}")
    assert recorded + missed == result["sent"]
