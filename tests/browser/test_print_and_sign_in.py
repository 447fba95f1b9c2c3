"""Printed pages, the sign-in page and its errors."""

from __future__ import annotations

import uuid

import pytest
from agent_session import play, send
from conftest import SignIn
from live_server import Server
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.browser
# The brightness of an element's text, from 0 to 255.
BRIGHTNESS = "(e) => Math.max(...getComputedStyle(e).color.match(/\\d+/g).slice(0, 3).map(Number))"


@pytest.fixture(scope="module")
def session(server: Server) -> str:
    name = f"paper-{uuid.uuid4().hex[:8]}"
    send(server.ingest_url, server.ingest_key, play(name, turns=18))
    return name


@pytest.fixture
def stranger(browser: Browser, server: Server) -> Page:
    """A page of someone who is not signed in."""
    return browser.new_context(base_url=server.url).new_page()


def submit(page: Page, password: str, username: str = "") -> None:
    if username:
        page.get_by_label("Username").fill(username)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def test_a_dark_page_is_printed_dark_on_white(sign_in: SignIn, session: str) -> None:
    page = sign_in("operator", dark=True)
    page.goto(f"/sessions/{session}/")
    expect(page.locator("span-inspector h2")).to_contain_text("Compaction 1")
    chart = page.locator("token-timeline canvas")
    on_screen = chart.evaluate("(canvas) => canvas.toDataURL()")
    assert page.locator("h1").evaluate(BRIGHTNESS) > 128
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator("h1").evaluate(BRIGHTNESS) < 128
    assert chart.evaluate("(canvas) => canvas.toDataURL()") != on_screen


@pytest.mark.parametrize("width", [760, 1280])
def test_a_printed_session_has_no_empty_tree_and_no_cut_panel(sign_in: SignIn, session: str, width: int) -> None:
    page = sign_in("operator", width=width)
    page.goto(f"/sessions/{session}/")
    expect(page.locator("span-inspector h2")).to_contain_text("Compaction 1")
    page.emulate_media(media="print")
    expect(page.locator(".tree-panel")).to_be_hidden()
    panel = page.locator(".inspector-panel")
    assert panel.evaluate(
        "(e) => e.lastElementChild.getBoundingClientRect().bottom <= e.getBoundingClientRect().bottom + 1"
    )
    # Relative times say nothing on paper.
    last = page.locator('[data-slot="last_at"] time')
    assert "2026" in last.evaluate("(e) => getComputedStyle(e, '::after').content")


def test_a_sign_in_leads_to_the_requested_page(stranger: Page, server: Server, session: str) -> None:
    stranger.goto(f"/sessions/{session}/")
    submit(stranger, server.logins["operator"]["password"], server.logins["operator"]["username"])
    expect(stranger).to_have_url(f"{server.url}/sessions/{session}/")
    expect(stranger.get_by_test_id("compaction-marker").first).to_be_visible()


def test_a_wrong_password_keeps_the_name_and_focuses_the_password(stranger: Page) -> None:
    stranger.goto("/login/")
    expect(stranger.get_by_label("Username")).to_be_focused()
    submit(stranger, "wrong", f"nobody-{uuid.uuid4().hex[:8]}")
    expect(stranger.get_by_role("alert")).to_have_text("Wrong username or password.")
    expect(stranger.get_by_label("Password")).to_be_focused()


def test_the_lockout_page_says_how_long_to_wait(stranger: Page) -> None:
    stranger.goto("/login/")
    submit(stranger, "wrong", f"nobody-{uuid.uuid4().hex[:8]}")
    while stranger.get_by_label("Password").count():
        submit(stranger, "wrong")
    expect(stranger.get_by_role("alert")).to_contain_text("Try again in 15 minutes.")
    stranger.get_by_role("link", name="Back to sign in").click()
    expect(stranger.get_by_label("Username")).to_be_focused()


def test_an_expired_form_is_explained(stranger: Page) -> None:
    """Signing in in another tab replaces the token of this form."""
    stranger.goto("/login/")
    stranger.context.clear_cookies()
    submit(stranger, "wrong", "nobody")
    expect(stranger.get_by_role("heading", name="This page has expired")).to_be_visible()


@pytest.mark.req("P-SEC-1")
def test_the_back_button_shows_nothing_after_a_logout(sign_in: SignIn) -> None:
    page = sign_in("auditor")
    page.goto("/audit/")
    assert page.get_by_role("heading", name="Audit log").is_visible()
    page.evaluate("document.querySelector('form[action=\"/logout/\"]').requestSubmit()")
    page.wait_for_url("**/login/**")
    page.go_back()
    page.wait_for_url("**/login/**")
    assert not page.get_by_role("heading", name="Audit log").is_visible()
