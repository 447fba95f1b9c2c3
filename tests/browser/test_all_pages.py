"""What holds on every page: accessibility, one origin, text from agents stays text, nothing wider than the screen."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from agent_session import Session, play, send
from axe_playwright_python.sync_playwright import Axe
from conftest import SignIn
from live_server import Server
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def compacted(server: Server) -> str:
    name = f"every-{uuid.uuid4().hex[:8]}"
    send(server.ingest_url, server.ingest_key, play(name, turns=18))
    return name


PAGES = ("/", "/sessions/{}/", "/sessions/{}/compactions/1/", "/tail/", "/compare/?a={}&b={}", "/?q=none-such")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing(path: str, dark: bool, sign_in: SignIn, compacted: str) -> None:
    page = sign_in("developer", dark=dark)
    page.goto(path.format(compacted, compacted))
    if path == "/sessions/{}/":
        page.get_by_test_id("compaction-marker").first.click()
        expect(page.get_by_test_id("inspector")).to_contain_text("Compacted")
    violations = Axe().run(page).response["violations"]
    assert not violations, [(v["id"], [node["html"][:200] for node in v["nodes"][:3]]) for v in violations]


@pytest.mark.parametrize("path", PAGES)
def test_no_request_leaves_the_server_and_no_page_is_wider_than_a_phone(
    path: str, server: Server, sign_in: SignIn, compacted: str
) -> None:
    page = sign_in("developer", width=390, height=844)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.format(compacted, compacted), wait_until="networkidle")
    assert all(url.startswith((server.url, "data:", "blob:")) for url in asked), asked
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>window.hacked = 1</script>",
    "\u202etxet desrever\u202c שלום",
    "zero\u200bwidth\u200d\ufeff",
    "{{ 7 * 7 }} {% csrf_token %}",
    "javascript:alert(1)",
)


def test_text_from_agents_is_text(server: Server, sign_in: SignIn) -> None:
    """Names, summaries, ids and properties that try to be something else; and one of a megabyte."""
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
