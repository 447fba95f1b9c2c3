"""Money, alerts, comments, mentions and bookmarks in a browser."""

from __future__ import annotations

import re
import uuid
from decimal import Decimal

import pytest
from agent_session import play, send
from axe_playwright_python.sync_playwright import Axe
from conftest import SignIn
from live_server import Server
from playwright.sync_api import Page, expect

from .page_wait import wait_until

pytestmark = pytest.mark.browser
PAGES = (
    "/sessions/{}/cost/",
    "/projects/default/prices/",
    "/alerts/",
    "/alerts/new/",
    "/mentions/",
    "/bookmarks/",
    "/sessions/{}/?comments=1",
)


@pytest.fixture
def session(server: Server) -> str:
    name = f"ops-{uuid.uuid4().hex[:8]}"
    send(server.ingest_url, server.ingest_key, play(name, turns=18))
    return name


def check_page(page: Page, width: int) -> None:
    violations = Axe().run(page).response["violations"]
    assert not violations, (page.url, [(v["id"], [node["html"][:200] for node in v["nodes"][:3]]) for v in violations])
    assert page.evaluate("document.documentElement.scrollWidth") <= width, page.url


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_pages_are_accessible_and_fit(width: int, dark: bool, sign_in: SignIn, session: str) -> None:
    page = sign_in("admin", width=width, dark=dark)
    for path in PAGES:
        page.goto(path.format(session))
        if "comments" in path:
            expect(page.locator(".comments-dialog textarea")).to_be_visible()
        check_page(page, width)


def test_a_mention_reaches_the_person(sign_in: SignIn, session: str) -> None:
    """Written with the keyboard only: `@op`, Enter to choose, Ctrl+Enter to send. Markup stays text."""
    page = sign_in("developer")
    page.goto(f"/sessions/{session}/compactions/1/")
    field = page.get_by_label("New comment")
    field.fill("<img src=x onerror=alert(1)> please look ")
    field.press("End")
    field.type("@op")
    expect(page.get_by_role("option", name="@operator")).to_have_attribute("aria-selected", "true")
    field.press("Enter")
    expect(field).to_have_value("<img src=x onerror=alert(1)> please look @operator ")
    field.press("Control+Enter")
    comment = page.get_by_test_id("comment")
    expect(comment).to_contain_text("<img src=x onerror=alert(1)>")
    expect(comment.locator(".mention")).to_have_text("@operator")
    assert comment.locator("img").count() == 0

    reader = sign_in("operator")
    reader.goto("/")
    expect(reader.get_by_role("button", name="new mentions")).to_be_visible()
    reader.goto("/mentions/")
    row = reader.get_by_test_id("mention-row").filter(has_text=session)
    row.get_by_role("link").click()
    expect(reader.get_by_test_id("comment")).to_contain_text("please look")
    assert reader.get_by_role("button", name="Delete").count() == 0

    comment.get_by_role("button", name="Delete").click()
    page.get_by_test_id("confirm").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No comments yet.")).to_be_visible()


def test_a_failed_request_keeps_the_text(sign_in: SignIn, session: str) -> None:
    page = sign_in("operator")
    page.goto(f"/sessions/{session}/")
    page.get_by_test_id("comments-button").click()
    field = page.locator(".comments-dialog").get_by_label("New comment")
    field.fill("typed while the server restarts")
    page.route("**/comments/", lambda route: route.abort())
    page.locator(".comments-dialog").get_by_role("button", name="Comment", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Your text is kept")
    expect(field).to_have_value("typed while the server restarts")


def test_a_comment_appears_at_once_on_the_page_of_a_compaction(sign_in: SignIn, session: str) -> None:
    """The live socket announces it, before the thread would read itself again after 20 seconds."""
    reader, writer = sign_in("operator"), sign_in("developer")
    greeted: set[Page] = set()
    for page in (reader, writer):
        page.on("websocket", lambda socket, page=page: socket.on("framereceived", lambda _: greeted.add(page)))
        page.goto(f"/sessions/{session}/compactions/1/")
        wait_until(page, lambda page=page: page in greeted)
    expect(reader.get_by_label("New comment")).to_be_visible()
    text = f"seen at once {uuid.uuid4().hex[:6]}"
    writer.get_by_label("New comment").fill(text)
    writer.get_by_role("button", name="Comment", exact=True).click()
    expect(reader.get_by_test_id("comment").filter(has_text=text)).to_be_visible(timeout=10_000)


def test_errors_of_comments_and_bookmarks_are_shown(sign_in: SignIn, session: str) -> None:
    """A server error is a message, and the star keeps its state."""
    page = sign_in("operator")
    for pattern in ("**/sessions/*/comments/*", "**/bookmark/*"):
        page.route(pattern, lambda route: route.fulfill(status=500, body=""))
    page.goto(f"/sessions/{session}/compactions/1/")
    expect(page.locator("comment-thread")).to_have_text("Can't load the comments. Retrying…")
    star = page.get_by_test_id("bookmark")
    star.click()
    expect(page.get_by_text("Can't save the bookmark. Try again.")).to_be_visible()
    expect(star).to_have_attribute("aria-pressed", "false")


def test_a_star_adds_a_bookmark(sign_in: SignIn, session: str) -> None:
    page = sign_in("operator")
    page.goto(f"/sessions/{session}/")
    star = page.get_by_test_id("bookmark")
    star.click()
    expect(star).to_have_attribute("aria-pressed", "true")
    page.goto(f"/bookmarks/?q={session}")
    expect(page.get_by_test_id("bookmark-row")).to_have_count(1)
    page.get_by_test_id("bookmark").click()
    expect(page.get_by_test_id("bookmark")).to_have_attribute("aria-pressed", "false")
    page.reload()
    expect(page.get_by_test_id("bookmark-row")).to_have_count(0)


def test_a_price_changes_the_cost(sign_in: SignIn, session: str) -> None:
    page = sign_in("admin")
    page.goto(f"/sessions/{session}/")
    page.get_by_test_id("session-cost").get_by_role("link").click()
    expect(page.get_by_test_id("cost-row")).to_contain_text("openai/gpt-5")
    before = page.get_by_test_id("cost-total").inner_text()
    assert before.startswith("$")
    page.goto("/projects/default/prices/")
    page.fill("#price-model", "gpt-5")
    page.fill("#price-input", "1000")
    page.fill("#price-output", "1000")
    page.get_by_role("button", name="Save price").click()
    expect(page.get_by_test_id("override-row")).to_contain_text("$1,000.00")
    page.goto(f"/sessions/{session}/cost/")
    assert page.get_by_test_id("cost-total").inner_text() != before
    page.goto("/projects/default/prices/")
    page.get_by_role("button", name="Delete the price of gpt-5").click()
    page.get_by_test_id("confirm").get_by_role("button", name="Delete").click()
    expect(page.get_by_test_id("override-row")).to_have_count(0)


def test_the_net_amount_is_the_sum_of_its_rows(server: Server, sign_in: SignIn) -> None:
    name = f"net-{uuid.uuid4().hex[:8]}"
    send(server.ingest_url, server.ingest_key, play(name, turns=50))
    page = sign_in("operator")
    page.goto(f"/sessions/{name}/cost/")
    total = page.get_by_test_id("net-total").locator("strong").inner_text()
    nets = page.get_by_test_id("compaction-cost-row").locator("[data-label=Net]").all_inner_texts()
    assert len(nets) > 1
    assert sum(map(amount, nets)) == amount(total)


def amount(text: str) -> Decimal:
    return Decimal(text.replace("−", "-").replace("$", "").replace(",", ""))


def test_the_form_of_a_rule_names_the_unit_of_its_threshold(sign_in: SignIn) -> None:
    """Only the kinds that count within a window ask for one, unless it is invalid."""
    page = sign_in("developer")
    page.goto("/alerts/new/")
    window = page.get_by_label("Window")
    for kind, unit, has_window in (
        ("facts_lost", "facts in one compaction", False),
        ("fallback", "fallbacks within the window", True),
        ("overflow", "overflows within the window", True),
        ("near_limit", "% of the context window", False),
        ("silence", "minutes without data", False),
    ):
        page.get_by_label("Alert on").select_option(kind)
        expect(page.locator("#threshold-unit")).to_have_text(unit, use_inner_text=True)
        expect(window).to_be_visible(visible=has_window)
    page.get_by_label("Alert on").select_option("overflow")
    window.fill("nonsense")
    page.get_by_label("Alert on").select_option("facts_lost")
    expect(window).to_be_hidden()
    page.get_by_role("button", name="Create rule").click()
    expect(window).to_be_visible()
    expect(window).to_have_attribute("aria-invalid", "true")


def test_a_rule_is_created_without_reaching_private_addresses(sign_in: SignIn) -> None:
    page = sign_in("developer")
    page.goto("/alerts/new/")
    page.fill("#id_name", "Browser rule")
    page.fill("#id_threshold", "5")
    page.fill("#id_webhook_url", "http://169.254.169.254/latest/")
    page.get_by_role("button", name="Create rule").click()
    expect(page.get_by_text("has the private address")).to_be_visible()
    page.fill("#id_webhook_url", "https://hooks.invalid/T0/secret")
    page.get_by_role("button", name="Create rule").click()
    expect(page.get_by_test_id("secret")).to_have_text(re.compile("^aris_"))
    rule = page.get_by_test_id("alert-rule").filter(has_text="Browser rule")
    rule.get_by_role("button", name="Send test").click()
    expect(page.get_by_role("alert")).to_contain_text("can't be resolved")
    expect(page.get_by_test_id("alert-row").first).to_contain_text("Failed")
    page.get_by_test_id("alert-rule").filter(has_text="Browser rule").get_by_role("button", name="Delete").click()
    expect(page.get_by_test_id("confirm")).to_contain_text("Its alerts are deleted from the history, too.")
    page.get_by_test_id("confirm").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("Deleted Browser rule.")).to_be_visible()
