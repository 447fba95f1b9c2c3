"""The hints of a first visit: by mouse or keyboard, out of the way, and never a second time."""

from __future__ import annotations

import uuid

import pytest
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


def places(page: Page) -> list[dict[str, float] | None]:
    """Where the parts of the page are."""
    return [page.locator(name).first.bounding_box() for name in (".story", "token-timeline", ".tree-panel", ".figures")]


def test_hints_lead_once_around_the_page_and_stay_away(sign_in: SignIn, session_url: str) -> None:
    """Each hint outlines what it speaks of; after the last one, a reload shows none; the button brings them back."""
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


def test_hints_work_by_keyboard_and_move_nothing(sign_in: SignIn, session_url: str) -> None:
    """Arrows turn the hints, Escape dismisses and gives the focus back; the page under them stays where it was."""
    page = sign_in("operator", is_new=True)
    page.goto(session_url)
    expect(page.get_by_test_id("compaction-marker")).to_have_count(1)
    before = places(page)
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
    assert places(page) == before
