"""Large sessions, and how pages are measured with them. Figures are printed; tests fail only on gross faults."""

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
  // There is no real pointer to capture.
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


def say(what: str, **figures: Any) -> None:
    told = ", ".join(f"{name} {value}" for name, value in figures.items())
    print(f"\n{what}: {told} (load {os.getloadavg()[0]:.1f})")


def spans(session: Session, count: int, *, depth: int) -> Iterator[dict[str, Any]]:
    """A tree `depth` levels deep beside turns of twenty calls, a check in every tenth."""
    yield session.trace()
    parent, made = None, 0
    while made < depth:
        event = session.span("span", f"level {made}", parent=parent, ms=60_000)
        parent, made = event["span_id"], made + 1
        yield event
    while made < count:
        turn = session.span("turn", f"Turn {made}", ms=900)
        yield turn
        made += 1
        if made % 10 == 0:
            session.turn += 1
            session.tokens = min(session.tokens + 5_000, 128_000)
            for event in session.check(turn["span_id"]):
                made += 1
                yield event
        for number in range(20):
            yield session.span("tool" if number % 3 else "generation", f"call {number}", parent=turn["span_id"], ms=30)
            session.at += timedelta(milliseconds=20)
            made += 1


def filled(server: Server, count: int, *, depth: int) -> str:
    session = Session(f"bench-{count}-{uuid.uuid4().hex[:6]}")
    send(server.ingest_url, server.ingest_key, spans(session, count, depth=depth), size=5_000)
    # What Postgres would do in the next minute anyhow, and on a core that the page needs.
    with psycopg.connect(server.database_url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")
    return session.session_id


def opened(page: Page, name: str) -> float:
    page.goto("about:blank")
    began = time.perf_counter()
    page.goto(f"/sessions/{name}/", wait_until="commit")
    page.get_by_test_id("span-row").first.wait_for()
    return time.perf_counter() - began


def percentile(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]


def tell_frames(page: Page, what: str, step: str) -> None:
    """Does `step` in 120 frames and prints how long they took, and how much of it the page's thread was at work."""
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = _thread_s(client)
    frames = page.evaluate(FRAMES, step)
    work = (_thread_s(client) - before) / 120 * 1000
    client.detach()
    over = sum(frame > 32 for frame in frames)
    took = {"p50": f"{percentile(frames, 0.5):.1f} ms", "p99": f"{percentile(frames, 0.99):.1f} ms"}
    say(what, **took, over_32_ms=over, at_work=f"{work:.1f} ms a frame")


def _thread_s(client: CDPSession) -> float:
    metrics = {row["name"]: row["value"] for row in client.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])


def heap_mb(page: Page) -> float:
    """What the page holds after a collection."""
    client = page.context.new_cdp_session(page)
    client.send("HeapProfiler.collectGarbage")
    used: float = client.send("Runtime.getHeapUsage")["usedSize"] / 1e6
    client.detach()
    return used
