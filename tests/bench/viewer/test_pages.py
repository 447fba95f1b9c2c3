"""How quickly pages open, move and follow, in a real Chromium. Figures are printed; only gross failures fail.

For comparison, MLflow 3.17 opened 10,000 spans in 49 to 54 s with 292,000 DOM nodes and 1.2 GB of heap on this kind of
machine. Wall-clock figures mean little while other work shares the cores, so the load is printed beside them.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from agent_session import Session, send
from conftest import Server, SignIn
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser

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
    return session.session_id


def opened(page: Page, name: str) -> float:
    page.goto("about:blank")
    began = time.perf_counter()
    page.goto(f"/sessions/{name}/", wait_until="commit")
    page.get_by_test_id("span-row").first.wait_for()
    return time.perf_counter() - began


def percentile(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]


@pytest.mark.parametrize(("count", "depth", "limit_s"), [(10_000, 100, 0.7), (100_000, 1_000, 1.5)])
def test_a_huge_session_opens_and_moves(
    server: Server, sign_in: SignIn, count: int, depth: int, limit_s: float
) -> None:
    name = filled(server, count, depth=depth)
    page = sign_in("operator", height=900)
    times = sorted(opened(page, name) for _ in range(5))
    rows = page.get_by_test_id("span-row").count()
    nodes = page.evaluate("document.querySelectorAll('*').length")
    client = page.context.new_cdp_session(page)
    client.send("HeapProfiler.collectGarbage")
    heap = client.send("Runtime.getHeapUsage")["usedSize"] / 1e6
    say(f"{count:,} spans open", best=f"{times[0]:.2f} s", median=f"{times[2]:.2f} s", wanted=f"{limit_s} s")
    say(f"{count:,} spans hold", rows=rows, nodes=nodes, heap=f"{heap:.0f} MB")
    step = "(i) => { const e = document.querySelector('.tree-scroll'); e.scrollTop = i / 120 * e.scrollHeight; }"
    frames = page.evaluate(FRAMES, step)
    say("scrolling", p50=f"{percentile(frames, 0.5):.1f} ms", p99=f"{percentile(frames, 0.99):.1f} ms")
    step = "(i) => document.dispatchEvent(new KeyboardEvent('keydown', {key: i % 8 < 4 ? '+' : '-'}))"
    frames = page.evaluate(FRAMES, step)
    say("zooming", p50=f"{percentile(frames, 0.5):.1f} ms", p99=f"{percentile(frames, 0.99):.1f} ms")
    assert rows <= 80
    assert heap < 150
    assert times[0] < 5 * limit_s


def test_a_thousand_checks_stay_smooth(server: Server, sign_in: SignIn) -> None:
    session = Session(f"checks-{uuid.uuid4().hex[:6]}")
    events = [session.trace()]
    for _ in range(1_000):
        session.turn += 1
        session.at += timedelta(seconds=20)
        session.tokens += 6_000
        events.extend(session.check("root"))
    send(server.ingest_url, server.ingest_key, events, size=5_000)
    page = sign_in("operator")
    opened(page, session.session_id)
    expect(page.get_by_test_id("compaction-marker").first).to_be_visible()
    step = "(i) => document.dispatchEvent(new KeyboardEvent('keydown', {key: i % 8 < 4 ? '+' : '-'}))"
    frames = page.evaluate(FRAMES, step)
    say("1,000 checks, zooming", p50=f"{percentile(frames, 0.5):.1f} ms", p99=f"{percentile(frames, 0.99):.1f} ms")


@pytest.mark.req("P-KR-5")
def test_from_post_to_pixel(server: Server, sign_in: SignIn) -> None:
    """At 200 events a second for 20 s (BENCH_SECONDS says otherwise): the time from a post to its row in the page."""
    seconds = float(os.environ.get("BENCH_SECONDS", "20"))
    noise, probe = (Session(f"{name}-{uuid.uuid4().hex[:6]}", started=datetime.now(UTC)) for name in ("noise", "probe"))
    send(server.ingest_url, server.ingest_key, [noise.trace(), probe.trace(), probe.span("agent", "first")])
    page = sign_in("operator")
    opened(page, probe.session_id)
    expect(page.locator("live-state")).to_have_attribute("data-state", "live")
    page.evaluate("""() => {
      window.seen = {};
      const look = () => { for (const label of document.querySelectorAll('.span-row .label'))
        if (label.textContent.startsWith('probe ')) window.seen[label.textContent] ??= Date.now(); };
      const everything = { subtree: true, childList: true, characterData: true };
      new MutationObserver(look).observe(document.querySelector('.tree-scroll'), everything);
    }""")
    ended = threading.Event()

    def make_noise() -> None:
        while not ended.is_set():
            send(server.ingest_url, server.ingest_key, [noise.span("tool", "noise") for _ in range(10)])
            ended.wait(0.05)

    thread = threading.Thread(target=make_noise)
    thread.start()
    posted: dict[str, float] = {}
    heap = []
    client = page.context.new_cdp_session(page)
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            name = f"probe {len(posted)}"
            posted[name] = time.time() * 1000
            # The newest on top of the tree, so that every one of them is drawn.
            event = probe.span("tool", name, started=datetime(2020, 1, 1, tzinfo=UTC) - timedelta(seconds=len(posted)))
            send(server.ingest_url, server.ingest_key, [event])
            page.wait_for_timeout(100)
            if len(posted) % 50 == 0:
                client.send("HeapProfiler.collectGarbage")
                heap.append(round(client.send("Runtime.getHeapUsage")["usedSize"] / 1e6, 1))
    finally:
        ended.set()
        thread.join()
    page.wait_for_function("(count) => Object.keys(window.seen).length >= count", arg=len(posted) - 1, timeout=20_000)
    seen = page.evaluate("window.seen")
    delays = sorted(seen[name] - at for name, at in posted.items() if name in seen)
    say(
        "post to pixel",
        n=len(delays),
        p50=f"{statistics.median(delays):.0f} ms",
        p95=f"{percentile(delays, 0.95):.0f} ms",
        p99=f"{percentile(delays, 0.99):.0f} ms",
        heap=heap,
    )
