"""Rules for every page: accessibility, a single origin, no horizontal scrolling, and text from agents stays text."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from agent_session import Session, play, send
from axe_playwright_python.sync_playwright import Axe
from conftest import SignIn
from live_server import Server
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def compacted_session(server: Server) -> str:
    name = f"every-{uuid.uuid4().hex[:8]}"
    send(server.ingest_url, server.ingest_key, play(name, turns=18))
    return name


PAGES = (
    "/",
    "/sessions/{}/",
    "/sessions/{}/compactions/1/",
    "/tail/",
    "/compare/?a={}&b={}",
    "/trends/",
    "/?q=none-such",
)


def check_accessibility(page: Page, place: str) -> None:
    violations = Axe().run(page).response["violations"]
    assert not violations, (place, [(v["id"], [node["html"][:200] for node in v["nodes"][:3]]) for v in violations])


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_have_no_accessibility_violations(dark: bool, sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("developer", dark=dark)
    for path in (*PAGES, "/keys/", "/tokens/", "/none-such/", "/audit/"):
        page.goto(path.format(compacted_session, compacted_session))
        check_accessibility(page, path)


RECORDS = (
    "/transcripts/",
    "/projects/",
    "/projects/default/",
    "/projects/default/redaction/",
    "/status/",
    "/sessions/%00/",
)


@pytest.mark.parametrize(("dark", "width"), [(False, 1280), (True, 390)], ids=["light", "dark phone"])
def test_pages_that_manage_records_have_no_accessibility_violations(dark: bool, width: int, sign_in: SignIn) -> None:
    page = sign_in("admin", dark=dark, width=width)
    for path in RECORDS:
        page.goto(path)
        check_accessibility(page, path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_inspector_has_no_accessibility_violations(dark: bool, sign_in: SignIn, compacted_session: str) -> None:
    """Each tab of a compaction, the flame view, the palette and the shortcuts."""
    page = sign_in("developer", dark=dark)
    page.goto(f"/sessions/{compacted_session}/")
    page.get_by_test_id("compaction-marker").first.click()
    inspector = page.get_by_test_id("inspector")
    expect(inspector).to_contain_text("Compacted")
    for tab in inspector.get_by_role("tab").all():
        tab.click()
        expect(tab).to_have_attribute("aria-selected", "true")
        check_accessibility(page, tab.inner_text())
    page.get_by_role("button", name="Flame").click()
    check_accessibility(page, "flame view")
    page.keyboard.press("Control+k")
    expect(page.get_by_test_id("command-palette")).to_be_visible()
    check_accessibility(page, "palette")


def test_pages_fit_a_phone_and_load_nothing_from_other_origins(
    server: Server, sign_in: SignIn, compacted_session: str
) -> None:
    page = sign_in("developer", width=390, height=844)
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    for path in PAGES:
        page.goto(path.format(compacted_session, compacted_session), wait_until="networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    assert all(url.startswith((server.url, "data:", "blob:")) for url in urls), urls


HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>window.hacked = 1</script>",
    "\u202etxet desrever\u202c שלום",
    "zero\u200bwidth\u200d\ufeff",
    "{{ 7 * 7 }} {% csrf_token %}",
    "javascript:alert(1)",
)


def test_hostile_text_from_agents_is_shown_as_text(server: Server, sign_in: SignIn) -> None:
    """Markup and scripts in names, summaries, ids and properties are not interpreted. One value has a megabyte."""
    session = Session(f"hostile <b>&\"' {uuid.uuid4().hex[:8]}")
    events: list[dict[str, Any]] = [session.trace()]
    for text in HOSTILE:
        events.append(session.span("tool", text, data={"reason": text, "note": text}))
        data = {"summary_tokens": 5, "version": 1, "input_messages": 2}
        payload = {"summary": f"# {text}\n\n[link](javascript:alert(1)) <script>window.hacked = 1</script> {text}"}
        events.append(session.span("compact.summary_created", text, data=data, payload=payload))
    events.append(session.span("tool", "long", data={"line": "x" * 1_000_000}))
    send(server.ingest_url, server.ingest_key, events)
    page = sign_in("developer")
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    page.goto("/")
    page.get_by_test_id("session-row").filter(has_text="hostile <b>").first.click()
    rows = page.get_by_test_id("span-row")
    expect(rows.filter(has_text="<img src=x onerror=alert(1)>").first).to_be_visible()
    inspector = page.get_by_test_id("inspector")
    for number in range(rows.count()):
        rows.nth(number).click()
        expect(inspector.locator("[data-action=overview]")).to_be_visible()
    page.keyboard.press("End")
    expect(inspector.locator(".raw")).to_contain_text("xxxx")
    assert inspector.locator("script, img, a[href^=javascript]").count() == 0
    assert not dialogs
    assert page.evaluate("window.hacked") is None
