"""The frame of all pages: command palette, keyboard shortcuts, stylesheet and preloads."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from agent_session import Session, play, send
from conftest import SignIn
from live_server import Server
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def compacted_session(server: Server) -> str:
    name = f"frame-{uuid.uuid4().hex[:8]}"
    send(server.ingest_url, server.ingest_key, play(name, turns=30))
    return name


def test_palette_finds_sessions_compactions_and_actions(sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("operator")
    page.goto("/")
    page.keyboard.press("Control+k")
    palette = page.get_by_test_id("command-palette")
    options = palette.get_by_role("option")
    page.keyboard.type(compacted_session)
    expect(options.filter(has_text="Session ·").first).to_contain_text(compacted_session)
    palette.get_by_role("combobox").fill(f"{compacted_session} compaction 2")
    expect(options).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_url("**/compactions/2/")
    page.keyboard.press("Meta+k")
    palette.get_by_role("combobox").fill("compare")
    expect(options.first).to_contain_text("Go to Compare")
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare/")
    page.keyboard.press("Control+k")
    palette.get_by_role("combobox").fill("no such thing anywhere")
    expect(palette).to_contain_text("Nothing matches")


def test_rows_and_compactions_have_keys_on_the_pages_that_list_them(sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("operator")
    page.goto(f"/?q={compacted_session}")
    expect(page.get_by_test_id("session-row")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/sessions/{compacted_session}/**")
    # The back arrow keeps the filters of the list.
    expect(page.locator("a.back")).to_have_attribute("href", re.compile(rf"/\?q={compacted_session}$"))
    page.goto(f"/sessions/{compacted_session}/compactions/1/")
    page.keyboard.press("c")
    page.wait_for_url("**/compactions/2/")
    page.keyboard.press("Shift+c")
    page.wait_for_url("**/compactions/1/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_contain_text("Next compaction")


def test_browsers_keep_all_scripts_and_styles_of_a_page(sign_in: SignIn, compacted_session: str) -> None:
    """A page names one stylesheet and one script. They and what they import are asked for once."""
    page = sign_in("operator")
    for path in ("/", f"/sessions/{compacted_session}/", f"/sessions/{compacted_session}/compactions/1/"):
        with page.expect_response(re.compile(r"/static/.*/js/pages/")) as script:
            page.goto(path)
        page.wait_for_load_state("networkidle")
        assert page.locator("link[rel=stylesheet]").count() == page.locator("script[src]").count() == 1
        assert "immutable" in script.value.headers["cache-control"]
        assert script.value.headers["x-content-type-options"] == "nosniff"
        addresses = page.evaluate("performance.getEntriesByType('resource').map((entry) => entry.name)")
        versions = {address.split("/static/")[1].split("/")[0] for address in addresses if "/static/" in address}
        assert versions == {script.value.url.split("/static/")[1].split("/")[0]}
        page.reload(wait_until="networkidle")
        loaded = (
            "performance.getEntriesByType('resource').filter((e) => /static.*(js|css)$/.test(e.name) && e.transferSize)"
        )
        assert page.evaluate(f"{loaded}.map((entry) => entry.name)") == []


def test_file_of_another_version_is_not_kept(page: Page) -> None:
    """During an upgrade, a page of one version may ask a process of another."""
    response = page.request.get("/static/000000000000/js/app.js")
    assert response.status == 200
    assert response.headers["cache-control"] == "no-store"
    assert page.request.get("/static/000000000000/js/missing.js").status == 404


def test_silent_session_is_not_running_forever(server: Server, sign_in: SignIn) -> None:
    session = Session(f"silent-{uuid.uuid4().hex[:8]}", started=datetime.now(UTC) - timedelta(minutes=9))
    agent = session.span("agent", "Never ended")
    del agent["ended_at"]
    send(server.ingest_url, server.ingest_key, [session.trace(), agent])
    page = sign_in("operator")
    page.goto(f"/sessions/{session.session_id}/")
    expect(page.locator('[data-slot="running"]')).to_contain_text("No events for")
    expect(page.get_by_test_id("inspector")).to_contain_text("no checks, and no model calls with token usage")


def test_long_model_name_does_not_widen_the_page(server: Server, sign_in: SignIn) -> None:
    session = Session(f"model-{uuid.uuid4().hex[:8]}")
    data = {"model": "m" * 300, "usage": {"input_tokens": 10, "output_tokens": 2}}
    send(server.ingest_url, server.ingest_key, [session.trace(), session.span("generation", "m" * 300, data=data)])
    for width in (1280, 390):
        page = sign_in("operator", width=width)
        page.goto(f"/sessions/{session.session_id}/")
        expect(page.get_by_test_id("span-row").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_long_names_leave_room_for_the_navigation(page: Page) -> None:
    """The menu of projects and the name of the user are cut, not the links."""
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto("/trends/")
    page.evaluate(
        """() => {
          const form = document.createElement("form");
          form.className = "project-form";
          const menu = form.appendChild(document.createElement("select"));
          menu.className = "field";
          menu.add(new Option("very long project name ".repeat(2)));
          document.querySelector(".topbar .end").prepend(form);
          document.querySelector(".topbar menu-button .hide-narrow").textContent = "u".repeat(150);
        }"""
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    expect(page.get_by_role("navigation", name="Main").get_by_role("link", name="Alerts")).to_be_in_viewport(ratio=1)
