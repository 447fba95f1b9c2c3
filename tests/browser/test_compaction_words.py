"""Words before hashes: the ledger, lost facts, the summary, the comparison and the transcript as people read them."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

import httpx
import pytest
from agent_session import play, send
from axe_playwright_python.sync_playwright import Axe
from compact.messages import content_hash
from conftest import SignIn
from live_server import Server
from playwright.sync_api import Page, expect

from .page_wait import is_below, wait_until

pytestmark = pytest.mark.browser
PATH = "billing/legacy/export.py"
SECRET = "Orchid is the code name"


def message(number: int) -> dict[str, Any]:
    if number == 4:
        call = {"id": "c", "function": {"name": "read_file", "arguments": json.dumps({"path": PATH})}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if number == 9:
        return {"role": "user", "content": f"Look at the ledger first. Then delete {PATH} after the freeze. Thanks."}
    return {"role": ("user", "assistant")[number % 2], "content": f"{SECRET} of step {number}. " + "More words. " * 20}


@pytest.fixture(scope="module")
def session(server: Server) -> str:
    """A session whose first compaction has an archived transcript."""
    name = f"words-{uuid.uuid4().hex[:8]}"
    events = play(name, turns=32)
    pruned = next(event for event in events if event.get("kind") == "compact.pruned_messages")
    for number, entry in enumerate(pruned["payload"]["ledger"]):
        entry |= {"hash": content_hash(message(number)), "role": message(number)["role"]}
    pruned["payload"]["ledger"][5]["inferred"] = True
    send(server.ingest_url, server.ingest_key, events)
    body = b"".join(json.dumps({"id": f"m{n}", **message(n)}).encode() + b"\n" for n in range(64))
    query = f"session={name}&step=1&sha256={hashlib.sha256(body).hexdigest()}"
    answer = httpx.post(f"{server.url}/ingest/transcripts?{query}", content=body, headers=server.headers, timeout=60)
    assert answer.status_code == 200
    return name


def check_accessibility(page: Page) -> None:
    results = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa"]})
    assert results.violations_count == 0, results.generate_report()


@pytest.mark.req("A-UI-2")
def test_the_ledger_shows_words_and_opens_a_message_as_a_bubble(sign_in: SignIn, session: str) -> None:
    page = sign_in("developer")
    page.goto(f"/sessions/{session}/compactions/1/")
    rows = page.get_by_test_id("ledger-row")
    expect(rows.nth(2)).to_contain_text(f"user {SECRET} of step 2", use_inner_text=True, ignore_case=True)
    expect(rows.nth(4)).to_contain_text(f'read_file(path="{PATH}")')
    expect(rows.nth(5)).to_contain_text("inferred")
    # A row after the first ones, whose words are loaded later.
    expect(rows.nth(60)).to_contain_text(f"{SECRET} of step 60")
    rows.nth(9).click()
    bubble = page.locator(".bubble")
    expect(bubble).to_contain_text(f"Then delete {PATH} after the freeze.")
    expect(bubble).to_contain_text("Rule: older than the recent window")
    expect(bubble).to_contain_text("It was merged into summary-1.")
    expect(bubble.get_by_role("button", name="Copy the hash")).to_be_visible()
    fact = page.get_by_test_id("lost-fact")
    expect(fact).to_contain_text(f"Then delete {PATH} after the freeze.")
    expect(fact.locator("mark")).to_have_text(PATH)
    fact.get_by_role("link", name="message 10").click()
    # The table draws its rows again while it scrolls.
    wait_until(page, lambda: is_below(page.locator("#m-m9"), page.locator(".ledger thead tr")))
    check_accessibility(page)


def test_a_line_of_the_summary_shows_its_source_messages(sign_in: SignIn, session: str) -> None:
    page = sign_in("developer")
    page.goto(f"/sessions/{session}/compactions/1/")
    page.locator("#summary li", has_text="Move the billing service").hover()
    expect(page.locator('#summary [data-slot="sources"]')).to_contain_text(f"{SECRET} of step 12")
    expect(page.locator("#m-m12")).to_have_class("source")
    page.goto(f"/sessions/{session}/compactions/2/")
    expect(page.locator(".lineage-changes")).to_contain_text("0 added, 0 edited, 0 removed")


@pytest.mark.req("A-UI-2")
def test_operators_see_figures_and_no_text(sign_in: SignIn, session: str) -> None:
    page = sign_in("operator", width=390, height=844, dark=True)
    page.goto(f"/sessions/{session}/compactions/1/")
    expect(page.get_by_test_id("facts-kept")).to_have_text("28 of 29 facts kept (97%)")
    page.get_by_test_id("ledger-row").nth(9).click()
    expect(page.locator(".bubble")).to_contain_text("You don't have permission to view payloads")
    assert "Orchid" not in page.content()
    assert PATH not in page.content()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="Weighted 97%").click()
    expect(page.locator("#weighted-help")).to_be_visible()
    check_accessibility(page)


def test_two_sessions_share_one_chart_grammar(sign_in: SignIn, session: str) -> None:
    page = sign_in("operator", width=390, height=844)
    page.goto(f"/compare/?a={session}&an=1&b={session}&bn=2")
    charts = page.get_by_test_id("token-timeline")
    expect(charts).to_have_count(2)
    for chart in (charts.first, charts.last):
        expect(chart.locator("canvas")).to_be_visible()
    expect(page.get_by_role("row", name="Facts kept").first).to_contain_text("28 of 29 (97%)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    check_accessibility(page)


@pytest.mark.req("A-UI-2")
def test_a_transcript_reads_as_a_conversation(server: Server, sign_in: SignIn, session: str) -> None:
    page = sign_in("auditor")
    page.goto(f"/transcripts/?q={session}")
    page.get_by_test_id("transcript-row").first.locator("a").first.click()
    page.get_by_role("link", name="Show messages").click()
    messages = page.get_by_test_id("transcript-message")
    expect(messages.nth(4)).to_contain_text("read_file")
    assert "\\n" not in messages.nth(4).inner_text()
    page.get_by_label("Find in transcript").fill("after the freeze")
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_test_id("match-count")).to_contain_text("1 of 64 messages")
    expect(messages).to_have_count(1)
    check_accessibility(page)
    page.get_by_role("link", name="Compaction 1").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Compaction 1")


def test_a_ledger_of_2000_messages_opens_and_scrolls(server: Server, sign_in: SignIn) -> None:
    name = f"many-{uuid.uuid4().hex[:8]}"
    events = play(name, turns=17)
    pruned = next(event for event in events if event.get("kind") == "compact.pruned_messages")
    bodies = [{"role": "user", "content": f"Message {n}: {'words ' * 30}"} for n in range(2_000)]
    pruned["payload"]["ledger"] = [
        {"id": f"x{n}", "hash": content_hash(body), "role": "user", "tokens": 40, "fate": "summarized", "rule": "old"}
        for n, body in enumerate(bodies)
    ]
    send(server.ingest_url, server.ingest_key, events)
    body = b"".join(json.dumps(message).encode() + b"\n" for message in bodies)
    query = f"session={name}&step=1&sha256={hashlib.sha256(body).hexdigest()}"
    answer = httpx.post(f"{server.url}/ingest/transcripts?{query}", content=body, headers=server.headers, timeout=60)
    assert answer.status_code == 200
    page = sign_in("developer")
    page.goto(f"/sessions/{name}/compactions/1/")
    expect(page.get_by_test_id("ledger-row").first).to_contain_text("Message 0")
    assert page.evaluate("document.querySelectorAll('*').length") <= 3_000
    page.locator(".ledger-scroll").evaluate("element => element.scrollTop = element.scrollHeight")
    expect(page.locator("#m-x1999")).to_contain_text("Message 1999")
    assert page.evaluate("document.querySelectorAll('*').length") <= 3_000
