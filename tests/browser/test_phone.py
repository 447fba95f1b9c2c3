"""The pages on a phone: rows of tables are cards, the navigation is a menu, and nothing covers anything."""

from __future__ import annotations

import hashlib
import json
import uuid
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from agent_session import play, send
from conftest import SignIn
from live_server import Server
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser
SCROLLED = """() => [...document.querySelectorAll("main .table-scroll")]
  .filter((e) => e.scrollWidth > e.clientWidth)
  .map((e) => e.getAttribute("aria-label"))"""


@pytest.fixture(scope="module")
def session(server: Server) -> str:
    name = f"phone-{uuid.uuid4().hex[:8]}"
    send(server.ingest_url, server.ingest_key, play(name, turns=18, started=datetime.now(UTC) - timedelta(hours=1)))
    body = json.dumps({"id": "a1", "role": "user", "content": "Hello."}).encode() + b"\n"
    query = f"session={name}&step=1&sha256={hashlib.sha256(body).hexdigest()}"
    httpx.post(f"{server.url}/ingest/transcripts?{query}", content=body, headers=server.headers).raise_for_status()
    return name


@pytest.fixture
def phone(sign_in: SignIn) -> Page:
    return sign_in("admin", width=390, height=844)


def test_rows_of_tables_are_cards(phone: Page, session: str) -> None:
    """No table scrolls sideways, and each cell shows the title of its column."""
    rows = {
        "/keys/": ("key-row", "Last used"),
        "/audit/": ("audit-row", "IP address"),
        f"/transcripts/?q={session}": ("transcript-row", "Received"),
        f"/sessions/{session}/cost/": ("compaction-cost-row", "Saved since"),
        "/projects/default/prices/": ("price-row", "Cached input"),
        "/trends/": ("trend-model", "Tokens freed"),
    }
    for path, (test_id, label) in rows.items():
        phone.goto(path)
        cell = phone.get_by_test_id(test_id).first.locator(f'td[data-label="{label}"]')
        expect(cell, path).to_be_visible()
        assert cell.evaluate("(e) => getComputedStyle(e, '::before').content") == f'"{label}"', path
        assert phone.evaluate(SCROLLED) == [], path


def test_navigation_is_a_menu(phone: Page) -> None:
    phone.goto("/keys/")
    link = phone.get_by_role("link", name="Transcripts")
    expect(link).to_be_hidden()
    phone.get_by_role("button", name="Menu").click()
    link.click()
    expect(phone).to_have_title("Transcripts · Ariadne")
    expect(link).to_be_hidden()


def test_tail_without_events_does_not_cover_its_filters(phone: Page) -> None:
    phone.goto("/tail/?kind=none-such")
    message = phone.locator(".tail-empty:visible")
    expect(message).to_contain_text("No events match")
    filters, text = phone.locator(".tail-filters").bounding_box(), message.bounding_box()
    assert filters is not None and text is not None
    assert filters["y"] + filters["height"] <= text["y"]


def test_fates_are_not_cut(phone: Page, session: str) -> None:
    phone.goto(f"/sessions/{session}/compactions/1/")
    expect(phone.get_by_test_id("ledger-row").first).to_be_visible()
    cut = "(cells) => cells.filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.textContent.trim())"
    assert phone.locator("[data-testid=ledger-row] .fate-cell").evaluate_all(cut) == []


def test_list_shows_model_and_labels(server: Server, phone: Page) -> None:
    name = f"labels-{uuid.uuid4().hex[:8]}"
    trace, *spans = play(name, turns=1)
    trace["metadata"] = {**(trace.get("metadata") or {}), "service.name": "checkout"}
    send(server.ingest_url, server.ingest_key, [trace, *spans])
    phone.goto(f"/?q={name}")
    row = phone.get_by_test_id("session-row")
    expect(row.get_by_text("checkout")).to_be_visible()
    expect(row.get_by_text("gpt-5")).to_be_visible()
    phone.goto(f"/sessions/{name}/")
    expect(phone.get_by_test_id("session-labels")).to_contain_text("checkout")
