"""Messages that left the prompt before a compaction: lost facts and lines of the summary lead to their texts."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

import httpx
import pytest
from agent_session import play, send
from axe_playwright_python.sync_playwright import Axe
from conftest import SignIn
from live_server import Server
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
PATH = "billing/legacy/export.py"
SECRET = "Orchid is the code name"


def message(number: int) -> dict[str, Any]:
    text = f"Look at the ledger first. Then delete {PATH} after the freeze." if number == 9 else f"{SECRET} {number}."
    return {"id": f"m{number}", "role": ("user", "assistant")[number % 2], "content": text}


@pytest.fixture(scope="module")
def session(server: Server) -> str:
    """A session whose second compaction has an archived transcript. Its ledger starts with message 40."""
    name = f"earlier-{uuid.uuid4().hex[:8]}"
    send(server.ingest_url, server.ingest_key, play(name, turns=32))
    body = b"".join(json.dumps(message(number)).encode() + b"\n" for number in range(104))
    query = f"session={name}&step=2&sha256={hashlib.sha256(body).hexdigest()}"
    answer = httpx.post(f"{server.url}/ingest/transcripts?{query}", content=body, headers=server.headers, timeout=60)
    assert answer.status_code == 200
    return name


def test_a_lost_fact_and_a_line_show_the_message_they_came_from(sign_in: SignIn, session: str) -> None:
    page = sign_in("developer")
    page.goto(f"/sessions/{session}/compactions/2/")
    fact = page.get_by_test_id("lost-fact")
    expect(fact).to_contain_text(f"Then delete {PATH} after the freeze.")
    show = fact.get_by_role("button", name="earlier message")
    show.click()
    expect(fact.locator(".earlier-message")).to_contain_text("Look at the ledger first.")
    show.click()
    expect(fact.locator(".earlier-message")).to_have_count(0)
    line = page.locator("#summary li", has_text="Move the billing service")
    line.get_by_role("button", name="earlier").click()
    expect(line.locator(".earlier-message")).to_contain_text(f"{SECRET} 12.")
    page.locator('#summary [data-slot="sources"]').get_by_role("button", name="Show message").click()
    expect(page.locator('#summary [data-slot="sources"]')).to_contain_text(f"{SECRET} 12.")
    results = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa"]})
    assert results.violations_count == 0, results.generate_report()


def test_a_failed_request_for_a_message_is_reported(sign_in: SignIn, session: str) -> None:
    page = sign_in("developer")
    page.goto(f"/sessions/{session}/compactions/2/")
    page.route("**/messages/*/", lambda route: route.abort())
    fact = page.get_by_test_id("lost-fact")
    fact.get_by_role("button", name="earlier message").click()
    expect(fact.locator(".earlier-message")).to_have_text("Couldn't load this message. Close it and try again.")


def test_operators_get_no_addresses_of_messages(sign_in: SignIn, session: str) -> None:
    page = sign_in("operator")
    page.goto(f"/sessions/{session}/compactions/2/")
    expect(page.locator("#earlier-messages")).to_have_js_property("textContent", "{}")
    assert "Orchid" not in page.content()
    assert PATH not in page.content()


def test_the_hint_opens_below_its_button(sign_in: SignIn, session: str) -> None:
    page = sign_in("operator")
    page.goto(f"/sessions/{session}/compactions/2/")
    button = page.get_by_role("button", name="Weighted")
    button.click()
    hint = page.locator("#weighted-help")
    expect(hint).to_be_visible()
    place, above = hint.bounding_box(), button.bounding_box()
    assert place and above and abs(place["x"] + place["width"] - above["x"] - above["width"]) < 8


def test_a_compaction_number_that_does_not_exist_is_reported(sign_in: SignIn, session: str) -> None:
    page = sign_in("operator")
    page.goto(f"/compare/?a={session}&an=1&b={session}&bn=99")
    note = page.locator(".compare-note")
    expect(note).to_contain_text(f"{session} has no compaction 99, only 2.")
    expect(note).to_contain_text("Enter a compaction number for both")
    page.goto(f"/compare/?a={session}&an=1&b={session}&bn=2")
    expect(page.get_by_role("row", name="Failed attempts")).to_be_visible()
    expect(note).to_have_count(0)
