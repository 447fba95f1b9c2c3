"""The pages on a phone: rows of tables are cards, the navigation is a menu, and nothing covers anything."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import uuid
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from agent_session import play, send
from conftest import SignIn
from live_server import Server
from playwright.sync_api import Page, expect

from .page_wait import wait_until

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


def test_filters_open_on_request(phone: Page, session: str) -> None:
    """A form shows its main field, and says that a hidden one is set."""
    for path, field in (("/", "state"), ("/tail/", "kind"), ("/audit/", "action")):
        phone.goto(path)
        toggle = phone.get_by_role("button", name="Filters")
        expect(phone.locator(f"[name={field}]"), path).to_be_hidden()
        assert toggle.evaluate("(e) => getComputedStyle(e, '::after').content") == "none", path
        toggle.click()
        expect(toggle).to_have_attribute("aria-expanded", "true")
        expect(phone.locator(f"[name={field}]"), path).to_be_visible()
    phone.goto("/?state=compacted")
    toggle = phone.get_by_role("button", name="Filters")
    assert toggle.evaluate("(e) => getComputedStyle(e, '::after').content") == '"•"'
    expect(phone.get_by_role("link", name="Clear")).to_be_visible()
    assert phone.get_by_test_id("session-row").first.bounding_box() is not None


def test_tail_shows_session_and_tokens(phone: Page, session: str) -> None:
    phone.goto(f"/tail/?session={session}")
    rows = phone.get_by_test_id("tail-row")
    row = rows.filter(has_text="Turn 18")
    expect(row.get_by_role("link", name=session)).to_be_visible()
    expect(rows.filter(has_text="token estimate").last.locator(".num")).to_have_text(re.compile(r"^\d+(\.\d)?k$"))
    boxes = sorted((box["y"], box["height"]) for one in rows.all() if (box := one.bounding_box()))
    assert all(below - top >= height - 1 for (top, height), (below, _) in itertools.pairwise(boxes))


def test_messages_of_a_ledger_have_the_whole_width(phone: Page, session: str) -> None:
    phone.goto(f"/sessions/{session}/compactions/1/")
    row = phone.get_by_test_id("ledger-row").first
    expect(row.locator(".tokens")).to_be_visible()
    expect(row.locator(".role")).to_be_visible()
    # The script replaces the rows, and a row that is no longer in the page has no width.
    previews = phone.locator(".ledger .preview")
    wait_until(phone, lambda: previews.evaluate_all("(previews) => previews.some((e) => e.offsetWidth > 300)"))
    heights = phone.get_by_test_id("ledger-row").evaluate_all(
        "(rows) => rows.map((e) => [e.offsetTop, e.offsetHeight])"
    )
    assert all(top + height <= below for (top, height), (below, _) in itertools.pairwise(heights))


def test_names_in_the_tree_are_not_cut(phone: Page, session: str) -> None:
    phone.goto(f"/sessions/{session}/#kind=turn")
    rows = phone.get_by_test_id("turn-row")
    expect(rows.first).to_be_visible()
    names = rows.locator(".label").evaluate_all(
        "(e) => e.map((x) => [x.getBoundingClientRect().right, x.closest('.cell-text').getBoundingClientRect().right])"
    )
    assert names and all(right <= edge for right, edge in names)


def test_a_turn_shows_its_tool_call_instead_of_its_model(phone: Page, session: str) -> None:
    phone.goto(f"/sessions/{session}/")
    row = phone.locator(".span-row[data-turn]").filter(has=phone.locator(".detail:not(:empty)")).first
    expect(row.locator(".detail")).to_be_visible()
    expect(row.locator(".model")).to_be_hidden()


def test_no_row_is_cut_off_below_the_minimap(phone: Page, session: str) -> None:
    phone.goto(f"/sessions/{session}/")
    expect(phone.locator('.span-row[aria-selected="true"]')).to_be_visible()
    assert phone.locator(".tree-scroll").evaluate("(e) => e.scrollTop % 28") == 0


def test_trends_have_two_charts_in_a_row(phone: Page, session: str) -> None:
    phone.goto("/trends/")
    first, second = (phone.get_by_test_id("trend-chart").nth(n).bounding_box() for n in (0, 1))
    assert first and second and first["y"] == second["y"]
    cut = phone.locator(".trend-total, .trend-unit, .trend h2").evaluate_all(
        "(e) => e.filter((x) => x.scrollWidth > x.clientWidth + 1).map((x) => x.textContent)"
    )
    assert cut == []


def test_pairs_of_a_comparison_are_cards(phone: Page, session: str) -> None:
    phone.goto(f"/compare/?a={session}&b={session}")
    pair = phone.locator(".steps tbody tr").first
    for side in ("A", "B"):
        cell = pair.locator(f'td[data-label="{side}"]')
        expect(cell.get_by_role("link")).to_be_visible()
        box = cell.bounding_box()
        assert box and box["width"] > 250


def test_transcripts_are_compact_cards(phone: Page, session: str) -> None:
    phone.goto(f"/transcripts/?q={session}")
    row = phone.get_by_test_id("transcript-row")
    expect(row.get_by_role("button", name="Bundle")).to_be_visible()
    redacted, actions = (
        row.locator('td[data-label="Redacted"]').bounding_box(),
        row.locator("td.actions").bounding_box(),
    )
    assert redacted and actions and actions["y"] < redacted["y"] + redacted["height"]
    expect(phone.locator("[name=since]")).to_be_hidden()


def test_cards_of_sessions_have_labels(phone: Page, session: str) -> None:
    """Each figure has the title of its column, and stays within the card."""
    phone.goto(f"/?q={session}")
    row = phone.get_by_test_id("session-row").first
    for column, label in (("use", "Peak usage"), ("compactions", "Compactions"), ("facts", "Facts kept")):
        cell = row.locator(f"[data-col={column}]")
        assert cell.evaluate("(e) => getComputedStyle(e, '::before').content") == f'"{label}"', column
        assert cell.evaluate("(e) => e.scrollWidth <= e.clientWidth"), column


def test_tags_of_cards_do_not_leave_their_panel(phone: Page) -> None:
    """A status such as "Expires in 23 h" wraps."""
    phone.goto("/keys/")
    phone.get_by_label("New key").fill("rotated")
    phone.get_by_role("button", name="Create key").click()
    row = phone.get_by_test_id("key-row").filter(has_text="rotated")
    row.get_by_role("button", name="Rotate").click()
    tag = phone.get_by_test_id("key-row").locator(".tag", has_text="Expires in").first
    expect(tag).to_be_visible()
    box = tag.bounding_box()
    assert box and box["x"] + box["width"] <= 390 - 12
