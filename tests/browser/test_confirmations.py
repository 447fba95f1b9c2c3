"""Actions that can't be undone ask first, and menus close without a choice."""

from __future__ import annotations

import re
import uuid

import pytest
from agent_session import play, send
from axe_playwright_python.sync_playwright import Axe
from conftest import SignIn
from live_server import Server
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser


def test_a_key_is_revoked_after_a_question(sign_in: SignIn) -> None:
    """Escape and Cancel keep the key and return the focus. The question has the name of the key as text."""
    page = sign_in("developer")
    label = f"<b>key</b> {uuid.uuid4().hex[:6]}"
    page.goto("/keys/")
    page.get_by_label("New key").fill(label)
    page.get_by_role("button", name="Create key").click()
    revoke = page.get_by_test_id("key-row").filter(has_text=label).get_by_role("button", name="Revoke")
    question = page.get_by_test_id("confirm")
    revoke.click()
    expect(question).to_contain_text(f"Revoke {label}?")
    assert not Axe().run(page).response["violations"]
    page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    expect(revoke).to_be_focused()
    revoke.click()
    # Enter is the safe answer.
    expect(question.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    expect(question).to_have_count(0)
    revoke.click()
    question.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("status").filter(has_text="Revoked")).to_be_visible()
    expect(revoke).to_have_count(0)


def test_each_action_that_cannot_be_undone_has_a_question(sign_in: SignIn) -> None:
    """Buttons for deletion and removal, on each page that has one. Forms with a required reason need no question."""
    page = sign_in("admin")
    page.goto("/tokens/")
    page.get_by_label("New token").fill("ci")
    page.get_by_role("button", name="Create token").click()
    expect(page.get_by_test_id("token-row").first).to_contain_text("Sessions, spans and summaries")
    for path in ("/tokens/", "/projects/default/", "/keys/"):
        page.goto(path)
        buttons = page.locator("main .button.danger")
        expect(buttons.first).to_be_visible()
        for button in buttons.all():
            expect(button).to_have_attribute("data-confirm", re.compile(r"\?"))


def test_menus_of_the_list_close_without_a_choice(server: Server, page: Page) -> None:
    """One menu is open at a time. Escape, a click elsewhere and moving the focus close it."""
    send(server.ingest_url, server.ingest_key, play(f"menus-{uuid.uuid4().hex[:8]}", turns=2))
    page.goto("/")
    views, columns = page.get_by_test_id("views"), page.get_by_test_id("columns")
    page.locator("summary", has_text="Views").click()
    expect(views).to_be_visible()
    page.locator("summary", has_text="Columns").click()
    expect(columns).to_be_visible()
    expect(views).to_be_hidden()
    page.keyboard.press("Escape")
    expect(columns).to_be_hidden()
    expect(page.locator("summary", has_text="Columns")).to_be_focused()
    page.keyboard.press("Enter")
    expect(columns).to_be_visible()
    page.get_by_test_id("search").focus()
    expect(columns).to_be_hidden()
    page.locator("summary", has_text="Views").click()
    page.get_by_role("heading", name="Sessions", exact=True).click()
    expect(views).to_be_hidden()
