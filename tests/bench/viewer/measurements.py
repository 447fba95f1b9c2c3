"""Large sessions and page measurements for the benchmarks.

The benchmarks print their figures. They fail only on gross regressions.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
from agent_session import Session, send
from live_server import Server
from playwright.sync_api import CDPSession, Page

ZOOM = "(i) => document.dispatchEvent(new KeyboardEvent('keydown', {key: i % 8 < 4 ? '+' : '-'}))"
BRUSH = """(i) => {
  const stage = document.querySelector('.timeline-stage');
  // Synthetic events have no pointer to capture.
  stage.setPointerCapture = () => {};
  const { left, top } = stage.getBoundingClientRect();
  const at = { clientX: left + 100 + i * 5, clientY: top + 80, buttons: 1, bubbles: true };
  stage.dispatchEvent(new PointerEvent(i ? (i < 119 ? 'pointermove' : 'pointerup') : 'pointerdown', at));
}"""
POINT = """(i) => {
  const stage = document.querySelector('.timeline-stage');
  const { left, top } = stage.getBoundingClientRect();
  const at = { clientX: left + 100 + i * 8, clientY: top + 80, bubbles: true };
  stage.dispatchEvent(new PointerEvent('pointermove', at));
}"""
SCROLL = "(i) => { const e = document.querySelector('.tree-scroll'); e.scrollTop = i / 120 * e.scrollHeight; }"
FRAMES = """async (step) => {
  const act = new Function("i", `return (${step})(i)`);
  const times = [];
  let last = performance.now();
  for (let i = 0; i < 120; i++) {
    act(i);
    await new Promise((done) => requestAnimationFrame(done));
    const now = performance.now();
    times.push(now - last);
    last = now;
  }
  return times.slice(5).sort((a, b) => a - b);
}"""


def report(title: str, **figures: Any) -> None:
    """Print figures with the load of the machine."""
    line = ", ".join(f"{name} {value}" for name, value in figures.items())
    print(f"\n{title}: {line} (load {os.getloadavg()[0]:.1f})")


def generate_spans(session: Session, count: int, *, depth: int) -> Iterator[dict[str, Any]]:
    """Yield a branch that is `depth` levels deep, then turns of 20 calls with a check in every tenth."""
    yield session.trace()
    parent, total = None, 0
    while total < depth:
        event = session.span("span", f"level {total}", parent=parent, ms=60_000)
        parent, total = event["span_id"], total + 1
        yield event
    while total < count:
        turn = session.span("turn", f"Turn {total}", ms=900)
        yield turn
        total += 1
        if total % 10 == 0:
            session.turn += 1
            session.tokens = min(session.tokens + 5_000, 128_000)
            for event in session.check(turn["span_id"]):
                total += 1
                yield event
        for number in range(20):
            yield session.span("tool" if number % 3 else "generation", f"call {number}", parent=turn["span_id"], ms=30)
            session.at += timedelta(milliseconds=20)
            total += 1


def send_large_session(server: Server, count: int, *, depth: int) -> str:
    """Send a session of `count` spans and return its id."""
    session = Session(f"bench-{count}-{uuid.uuid4().hex[:6]}")
    send(server.ingest_url, server.ingest_key, generate_spans(session, count, depth=depth), size=5_000)
    # Otherwise Postgres would do this in the next minute and compete with the page for a core.
    with psycopg.connect(server.database_url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")
    return session.session_id


def open_session(page: Page, name: str) -> float:
    """Open a session page and return the seconds until its first span row."""
    page.goto("about:blank")
    began = time.perf_counter()
    page.goto(f"/sessions/{name}/", wait_until="commit")
    page.get_by_test_id("span-row").first.wait_for()
    return time.perf_counter() - began


def percentile(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]


def report_frames(page: Page, title: str, step: str) -> None:
    """Run `step` in 120 frames and print their duration and the CPU time of the page's main thread."""
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = _thread_s(client)
    frames = page.evaluate(FRAMES, step)
    cpu_ms = (_thread_s(client) - before) / 120 * 1000
    client.detach()
    over = sum(frame > 32 for frame in frames)
    durations = {"p50": f"{percentile(frames, 0.5):.1f} ms", "p99": f"{percentile(frames, 0.99):.1f} ms"}
    report(title, **durations, over_32_ms=over, cpu=f"{cpu_ms:.1f} ms per frame")


def _thread_s(client: CDPSession) -> float:
    metrics = {row["name"]: row["value"] for row in client.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])


def heap_mb(page: Page) -> float:
    """Return the size of the page's heap after garbage collection."""
    client = page.context.new_cdp_session(page)
    client.send("HeapProfiler.collectGarbage")
    used: float = client.send("Runtime.getHeapUsage")["usedSize"] / 1e6
    client.detach()
    return used
