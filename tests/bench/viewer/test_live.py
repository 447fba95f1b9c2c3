"""Latency from an ingest request to the row in an open page, under load, and memory growth.

BENCH_SECONDS=600 pytest -s tests/bench/viewer/test_live.py     ten minutes, default 20 seconds
BENCH_RATE=1000 pytest -s tests/bench/viewer/test_live.py       1,000 events per second, default 200
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from datetime import UTC, datetime, timedelta

import psutil
import pytest
from agent_session import Session, send
from bench.viewer.measurements import heap_mb, open_session, percentile, report
from conftest import SignIn
from live_server import Server
from playwright.sync_api import expect

SECONDS = float(os.environ.get("BENCH_SECONDS", "20"))
RATE = int(os.environ.get("BENCH_RATE", "200"))
POSTS_PER_S = 20
pytestmark = [pytest.mark.browser, pytest.mark.timeout(SECONDS * 2 + 300)]


@pytest.mark.req("P-KR-5")
def test_latency_from_ingest_to_page(server: Server, sign_in: SignIn) -> None:
    """Measured while another session sends `RATE` events per second."""
    noise, probe = (Session(f"{name}-{uuid.uuid4().hex[:6]}", started=datetime.now(UTC)) for name in ("noise", "probe"))
    send(server.ingest_url, server.ingest_key, [noise.trace(), probe.trace(), probe.span("agent", "first")])
    page = sign_in("operator")
    open_session(page, probe.session_id)
    expect(page.locator("live-state")).to_have_attribute("data-state", "live")
    page.evaluate("""() => {
      window.seen = {};
      const look = () => { for (const label of document.querySelectorAll('.span-row .label'))
        if (label.textContent.startsWith('probe ')) window.seen[label.textContent] ??= Date.now(); };
      const everything = { subtree: true, childList: true, characterData: true };
      new MutationObserver(look).observe(document.querySelector('.tree-scroll'), everything);
    }""")
    ended = threading.Event()

    noise_count = 0

    def make_noise() -> None:
        nonlocal noise_count
        began = time.monotonic()
        while not ended.is_set():
            events = [noise.span("tool", "noise") for _ in range(RATE // POSTS_PER_S)]
            send(server.ingest_url, server.ingest_key, events)
            noise_count += len(events)
            ended.wait(max(0.0, began + noise_count / RATE - time.monotonic()))

    thread = threading.Thread(target=make_noise)
    thread.start()
    posted: dict[str, float] = {}
    heap, memory = [heap_mb(page)], [server_mb(server)]
    until = time.monotonic() + SECONDS
    try:
        while time.monotonic() < until:
            name = f"probe {len(posted)}"
            posted[name] = time.time() * 1000
            # The earliest start puts each span at the top of the tree, where it is drawn.
            event = probe.span("tool", name, started=datetime(2020, 1, 1, tzinfo=UTC) - timedelta(seconds=len(posted)))
            send(server.ingest_url, server.ingest_key, [event])
            page.wait_for_timeout(100)
            if len(posted) % 200 == 0:
                heap.append(heap_mb(page))
                memory.append(server_mb(server))
    finally:
        ended.set()
        thread.join()
    page.wait_for_function("(count) => Object.keys(window.seen).length >= count", arg=len(posted) - 1, timeout=20_000)
    seen = page.evaluate("window.seen")
    delays = [seen[name] - at for name, at in posted.items() if name in seen]
    half = len(delays) // 2
    groups = {"all": delays, "first half": delays[:half], "second half": delays[half:]}
    for name, group in groups.items():
        values = sorted(group)
        p50, p95, p99 = (f"{percentile(values, share):.0f} ms" for share in (0.5, 0.95, 0.99))
        report(f"ingest to page, {name}", n=len(values), p50=p50, p95=p95, p99=p99)
    report("load", events_per_s=f"{noise_count / SECONDS:,.0f}")
    report(
        "growth", page=f"{heap[0]:.1f} to {heap[-1]:.1f} MB of heap", server=f"{memory[0]:.0f} to {memory[-1]:.0f} MB"
    )


def server_mb(server: Server) -> float:
    """Return the memory of the web processes, without Postgres."""
    children = psutil.Process(server.process.pid).children(recursive=True)
    return (
        sum(child.memory_info().rss for child in children if "ariadne.runtime.web_process" in " ".join(child.cmdline()))
        / 1e6
    )
