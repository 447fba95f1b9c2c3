"""The tour of the session page."""

from __future__ import annotations

import uuid

import pytest
from agent_session import Session, send
from compact import AriadneExporter, CompactConfig, CompactManager, CompactPolicy
from conftest import SignIn
from conversations import conversation
from live_server import Server
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser


@pytest.fixture
def session_url(server: Server) -> str:
    session_id = f"first-look-{uuid.uuid4().hex[:8]}"
    exporter = AriadneExporter(server.ingest_url, server.ingest_key, spool_dir=None)
    policy = CompactPolicy(hard_cap_buffer=300, keep_recent_turns=2, keep_tool_io_pairs=1)
    manager = CompactManager(CompactConfig(model="gpt-5", max_context_tokens=6_000, policy=policy, exporter=exporter))
    manager.preflight(session_id, conversation(60))
    assert exporter.flush(20.0)
    exporter.close()
    return f"/sessions/{session_id}/"


def positions(page: Page) -> list[dict[str, float] | None]:
    """Bounding boxes of the main parts of the page."""
    return [
        page.locator(selector).first.bounding_box()
        for selector in (".story", "token-timeline", ".tree-panel", ".figures")
    ]


def test_tour_does_not_cover_a_phone(sign_in: SignIn, session_url: str) -> None:
    page = sign_in("operator", width=390, height=844, is_new=True)
    page.goto(session_url)
    expect(page.get_by_test_id("span-row").first).to_be_visible()
    expect(page.get_by_test_id("first-look")).to_be_hidden()


def test_tour_does_not_open_on_a_session_without_data(server: Server, sign_in: SignIn) -> None:
    session = Session(f"bare-{uuid.uuid4().hex[:8]}")
    send(server.ingest_url, server.ingest_key, [session.trace()])
    page = sign_in("operator", is_new=True)
    page.goto(f"/sessions/{session.session_id}/")
    expect(page.locator("live-state")).to_have_attribute("data-state", "live")
    expect(page.get_by_test_id("first-look")).to_be_hidden()
    page.get_by_role("button", name="Tour").click()
    expect(page.get_by_test_id("first-look")).to_be_visible()


def test_tour_opens_on_the_first_visit_only(sign_in: SignIn, session_url: str) -> None:
    """Each step outlines an element. After the last step the tour stays closed until its button is clicked."""
    page = sign_in("operator", is_new=True)
    page.goto(session_url)
    card = page.get_by_test_id("first-look")
    expect(card).to_contain_text("1 of 5")
    expect(page.get_by_test_id("token-timeline")).to_have_attribute("data-hinted", "")
    for number in range(2, 6):
        card.get_by_role("button", name="Next").click()
        expect(card).to_contain_text(f"{number} of 5")
        expect(page.locator("[data-hinted]")).to_have_count(1)
    card.get_by_role("button", name="Done").click()
    expect(card).to_be_hidden()
    expect(page.locator("[data-hinted]")).to_have_count(0)
    page.reload()
    expect(page.get_by_role("button", name="Tour")).to_be_visible()
    expect(card).to_be_hidden()
    page.get_by_role("button", name="Tour").click()
    expect(card).to_contain_text("1 of 5")


def test_tour_works_with_the_keyboard_and_does_not_move_the_page(sign_in: SignIn, session_url: str) -> None:
    """Arrow keys change the step. Escape closes the tour and returns the focus to its button."""
    page = sign_in("operator", is_new=True)
    page.goto(session_url)
    expect(page.get_by_test_id("compaction-marker")).to_have_count(1)
    before = positions(page)
    button, card = page.get_by_role("button", name="Tour"), page.get_by_test_id("first-look")
    button.focus()
    page.keyboard.press("Tab")
    expect(card.get_by_role("button", name="Dismiss")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(card).to_contain_text("2 of 5")
    page.keyboard.press("ArrowLeft")
    expect(card).to_contain_text("1 of 5")
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    expect(button).to_be_focused()
    assert positions(page) == before
