"""The page of a compaction with 2,000 messages stays small, and every message can be reached."""

from __future__ import annotations

import hashlib
import re
import uuid
from typing import Any

import httpx
import pytest
from agent_session import play, send
from conftest import SignIn
from live_server import Server
from playwright.sync_api import expect

from .page_wait import is_below, wait_until

MESSAGES = 2_000
MAX_NODES = 3_000


@pytest.fixture
def session(server: Server) -> str:
    """A session whose first compaction has a ledger of 2,000 messages."""
    name = f"large-{uuid.uuid4().hex[:8]}"
    events = play(name, turns=18)
    pruned = next(event for event in events if event.get("name") == "compact.pruned_messages")
    pruned["payload"] = {**pruned["payload"], "ledger": [entry(number) for number in range(MESSAGES)], "after": []}
    send(server.ingest_url, server.ingest_key, events)
    return name


def entry(number: int) -> dict[str, Any]:
    fate = ("kept", "cleared")[number % 2]
    return {"id": f"row{number}", "hash": f"{number:064x}", "role": "user", "tokens": 5, "fate": fate, "rule": "a rule"}


@pytest.mark.browser
def test_a_large_ledger_draws_only_visible_rows(sign_in: SignIn, session: str) -> None:
    page = sign_in("operator")
    page.goto(f"/sessions/{session}/compactions/1/")
    ledger = page.locator("fate-ledger")
    expect(ledger.locator("#m-row0")).to_be_visible()
    assert page.evaluate("document.querySelectorAll('*').length") <= MAX_NODES
    ledger.locator(".ledger-scroll").evaluate("element => element.scrollTop = element.scrollHeight")
    expect(ledger.locator(f"#m-row{MESSAGES - 1}")).to_be_visible()
    page.evaluate("location.hash = '#m-row1000'")
    expect(ledger.locator("#m-row1000")).to_be_in_viewport()
    expect(ledger.locator("#m-row1000")).to_have_class("target")
    # Neither the header of the page nor that of the table covers the row.
    wait_until(page, lambda: is_below(ledger.locator("#m-row1000"), ledger.locator("thead tr")))
    ledger.get_by_label("Search messages").fill("row1234")
    expect(ledger.locator("tbody tr")).to_have_count(1)
    expect(ledger.locator("#m-row1234")).to_be_visible()
    assert page.evaluate("document.querySelectorAll('*').length") <= MAX_NODES


@pytest.mark.browser
def test_a_row_keeps_its_element_and_the_focus_while_it_is_on_screen(sign_in: SignIn, session: str) -> None:
    page = sign_in("operator")
    page.goto(f"/sessions/{session}/compactions/1/#m-row1000")
    row = page.locator("#m-row1000")
    expect(row).to_be_in_viewport()
    row.locator("button").evaluate("element => { element.focus({ preventScroll: true }); window.row = element; }")
    scroller = page.locator(".ledger-scroll")
    scroller.evaluate("element => element.scrollTop += 150")
    expect(page.locator("#m-row1018")).to_be_attached()
    assert page.evaluate("document.activeElement === window.row && row.closest('tr').id") == "m-row1000"
    scroller.evaluate("element => element.scrollTop += 3000")
    expect(page.locator("#m-row1110")).to_be_in_viewport()
    expect(row).to_have_count(0)


@pytest.mark.browser
def test_what_if_shows_progress_and_can_be_canceled(server: Server, sign_in: SignIn, session: str) -> None:
    """The server does not answer until the reader cancels."""
    body = b'{"id":"row0","role":"user","content":"Fix the login."}\n'
    query = f"session={session}&step=1&sha256={hashlib.sha256(body).hexdigest()}"
    url = f"{server.url}/ingest/transcripts?{query}"
    assert httpx.post(url, content=body, headers=server.headers).status_code == 200
    page = sign_in("developer")
    page.route("**/what-if/**", lambda _route: None)
    page.goto(f"/sessions/{session}/compactions/1/")
    page.locator("#what-if").scroll_into_view_if_needed()
    expect(page.locator(".whatif-progress")).to_contain_text(re.compile(r"Replaying… \d+ s"))
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".whatif-progress")).to_have_count(0)
    expect(page.get_by_role("button", name="Replay this compaction")).to_be_visible()
    # Without a connection, an error says why nothing happens.
    page.unroute_all(behavior="ignoreErrors")
    page.route("**/what-if/**", lambda route: route.abort())
    page.get_by_role("button", name="Replay this compaction").click()
    expect(page.get_by_role("alert")).to_have_text("Can't reach the server. Try again in a moment.")
    expect(page.get_by_role("button", name="Replay this compaction")).to_be_visible()


@pytest.mark.browser
@pytest.mark.parametrize(("part", "marks"), [("", ["first", None]), ("#summary", [])])
def test_lower_parts_are_laid_out_after_the_first_paint(
    sign_in: SignIn, session: str, part: str, marks: list[str | None]
) -> None:
    """The page is marked until its first paint. A link into the page shows everything at once."""
    page = sign_in("operator")
    page.add_init_script(
        "window.marks = []; new MutationObserver(() => marks.push(document.documentElement.dataset.paint ?? null))"
        ".observe(document, { attributes: true, subtree: true, attributeFilter: ['data-paint'] })"
    )
    page.goto(f"/sessions/{session}/compactions/1/{part}")
    wait_until(page, lambda: page.evaluate("marks.length") >= len(marks))
    expect(page.locator("#what-if")).to_be_visible()
    assert page.locator("#what-if").evaluate("element => getComputedStyle(element).contentVisibility") == "visible"
    assert page.evaluate("marks") == marks


@pytest.mark.browser
def test_lower_parts_need_no_script(server: Server, sign_in: SignIn, session: str) -> None:
    page = sign_in("operator")
    assert page.context.browser
    context = page.context.browser.new_context(
        java_script_enabled=False, storage_state=page.context.storage_state(), base_url=server.url
    )
    plain = context.new_page()
    plain.goto(f"/sessions/{session}/compactions/1/")
    expect(plain.locator("#summary")).to_be_visible()
    expect(plain.locator("#what-if")).to_be_visible()
    context.close()
