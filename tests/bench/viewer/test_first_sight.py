"""Time to first byte, first paint and first row of the main pages.

Each page is opened with an empty browser cache, again with a filled one, and from the trends page as a user would.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import uuid
from typing import Any

import httpx
import pytest
from agent_session import play, send
from bench.viewer.measurements import report, send_large_session
from compact.messages import content_hash
from conftest import SignIn
from live_server import Server
from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
MESSAGES = 2_000
RUNS = 3
# The row is recorded by the page itself, so that the figure does not contain the latency of the test's own calls.
OBSERVE = """(selector) => {
  window.firstRow = null;
  window.shift = 0;
  new PerformanceObserver((list) => list.getEntries().forEach((entry) => (window.shift += entry.value)))
    .observe({ type: "layout-shift", buffered: true });
  const look = () => {
    const row = document.querySelector(selector);
    if (row && row.getBoundingClientRect().height) window.firstRow = performance.now();
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""
FIGURES = """() => {
  const [page] = performance.getEntriesByType("navigation");
  const [paint] = performance.getEntriesByName("first-contentful-paint");
  return {
    ttfb: page.responseStart - page.requestStart,
    paint: paint?.startTime ?? null,
    row: window.firstRow,
    requests: performance.getEntriesByType("resource").filter((e) => e.startTime < (window.firstRow ?? 1e9)).length,
    nodes: document.querySelectorAll("*").length,
    shift_thousandths: window.shift * 1000,
  };
}"""


def compaction_with_messages(server: Server) -> str:
    """Send a session whose second compaction has 2,000 messages, their texts, lost facts and an earlier summary."""
    name = f"first-sight-{uuid.uuid4().hex[:6]}"
    events = play(name, turns=32)
    bodies = [{"role": "user", "content": f"Message {n} about job-{n:05d}. {'words ' * 30}"} for n in range(MESSAGES)]
    pruned = [event for event in events if event.get("kind") == "compact.pruned_messages"][1]
    pruned["payload"]["ledger"] = [
        {"id": f"x{n}", "hash": content_hash(body), "role": "user", "tokens": 40, "fate": "summarized", "rule": "old"}
        for n, body in enumerate(bodies)
    ]
    retention = [event for event in events if event.get("kind") == "compact.retention"][1]
    retention["payload"]["lost"] = [
        {"kind": "id", "text": f"job-{n:05d}", "source_ids": [f"x{n}"]} for n in range(0, MESSAGES, 20)
    ]
    for number, event in enumerate(event for event in events if event.get("kind") == "compact.summary_created"):
        lines = (f"- Job {line} is in state {line % 7 + number} [x{line}]" for line in range(150))
        event["payload"]["summary"] = "# Task state\n" + "\n".join(lines)
    send(server.ingest_url, server.ingest_key, events)
    body = b"".join(json.dumps({"id": f"x{n}", **message}).encode() + b"\n" for n, message in enumerate(bodies))
    query = f"session={name}&step=2&sha256={hashlib.sha256(body).hexdigest()}"
    answer = httpx.post(f"{server.url}/ingest/transcripts?{query}", content=body, headers=server.headers, timeout=60)
    assert answer.status_code == 200
    return name


def measure(page: Page, path: str, selector: str, *, before: str = "/healthz") -> dict[str, Any]:
    # From another page of the server, as users come. From a blank page, the browser would start a new process.
    page.goto(before, wait_until="networkidle")
    page.goto(path, wait_until="commit")
    page.locator(selector).first.wait_for()
    page.wait_for_load_state("networkidle")
    figures: dict[str, Any] = page.evaluate(FIGURES)
    return figures


def open_context(browser: Browser, page: Page, server: Server) -> BrowserContext:
    """Return a context with the same login and an empty cache."""
    return browser.new_context(
        storage_state=page.context.storage_state(), base_url=server.url, viewport={"width": 1280, "height": 800}
    )


@pytest.mark.parametrize("name", ["home", "1,000 spans", "10,000 spans", "100,000 spans", "2,000 messages"])
def test_first_sight(server: Server, sign_in: SignIn, browser: Browser, name: str) -> None:
    if name == "home":
        path, selector = "/", "[data-testid=session-row]"
        send(server.ingest_url, server.ingest_key, [event for n in range(30) for event in play(f"home-{n}", turns=12)])
    elif name == "2,000 messages":
        path, selector = f"/sessions/{compaction_with_messages(server)}/compactions/2/", "[data-testid=ledger-row]"
    else:
        count = int(name.split(maxsplit=1)[0].replace(",", ""))
        path, selector = f"/sessions/{send_large_session(server, count, depth=50)}/", "[data-testid=span-row]"
    signed_in = sign_in("developer")
    colds, warms, links = [], [], []
    for _ in range(RUNS):
        context = open_context(browser, signed_in, server)
        context.add_init_script(f"({OBSERVE})({json.dumps(selector)})")
        page = context.new_page()
        colds.append(measure(page, path, selector))
        warms += [measure(page, path, selector) for _ in range(2)]
        links += [measure(page, path, selector, before="/trends/") for _ in range(2)]
        context.close()
    for title, runs in (("empty cache", colds), ("filled cache", warms), ("from trends", links)):
        median = {key: round(statistics.median(run[key] for run in runs)) for key in runs[0]}
        first = {key: round(runs[0][key]) for key in ("ttfb", "paint", "row")}
        report(f"{name}, {title}, ms", **median, first=first)
    assert colds[0]["nodes"] <= 3_000
