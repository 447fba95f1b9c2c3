"""The home page that triages, search as you type, and the trends page."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from agent_session import send
from conftest import SignIn
from live_server import Server
from playwright.sync_api import Page, Route, expect

from .page_wait import wait_until

pytestmark = pytest.mark.browser

WORD = f"kingfisher{uuid.uuid4().hex[:6]}"
LONG_MODEL = "model-" + "x" * 300


@pytest.fixture(scope="module")
def lossy(server: Server) -> str:
    """A session of now that lost 69 of 265 facts at turn 38, with a failed tool and a message."""
    name = f"research-grid-storage-{uuid.uuid4().hex[:8]}-of-a-run-with-a-long-name"
    now = datetime.now(UTC).isoformat()
    base = {"type": "span", "trace_id": f"t-{name}", "started_at": now, "ended_at": now}

    def event(span_id: str, event_name: str, **properties: Any) -> dict[str, Any]:
        parent = {} if span_id == "c" else {"parent_id": "c"}
        return {**base, **parent, "span_id": span_id, "event": event_name, "properties": properties}

    text = f"find the {WORD} <img src=x onerror=alert(1)> in src/grid/storage.py " + "and read it again " * 20
    events: list[dict[str, Any]] = [
        {"type": "trace", "trace_id": f"t-{name}", "group_id": name, "metadata": {"deployment.environment": "staging"}},
        event("c", "compact.check", turn=38, trigger="preflight"),
        event("d", "compact.trigger_decision", model="gpt-5", triggered=True, t_est=900, max_tokens=1000, turn=38),
        event("p", "compact.pruned_messages", tokens_before=900, tokens_after=300, step=1),
        event("r", "compact.retention", facts_total=265, facts_kept=196, step=1),
        {**base, "span_id": "t", "kind": "tool", "name": "read_file", "status": "error"},
        {**base, "span_id": "g", "kind": "generation", "data": {"input": [{"role": "user", "content": text}]}},
    ]
    send(server.ingest_url, server.ingest_key, events)
    return name


def test_attention_leads_to_the_compaction(lossy: str, page: Page) -> None:
    """The list names the loss with its turn, and the link opens the session at the check."""
    page.goto("/")
    item = page.get_by_test_id("attention-item").filter(has_text=lossy)
    expect(item).to_contain_text("lost 69 facts at turn 38")
    expect(item).to_contain_text("had 1 error")
    figures = page.get_by_test_id("figures")
    expect(figures.locator("svg.spark")).to_have_count(6)
    expect(figures.locator("[data-figure=facts]")).to_contain_text("of")
    item.get_by_role("link").click()
    page.wait_for_url(re.compile(r"/sessions/.*#span="))


def test_search_finds_texts_as_you_type(lossy: str, sign_in: SignIn) -> None:
    """Snippets are text with the match highlighted. Arrow keys choose a result, and Enter opens it."""
    page = sign_in("developer")
    page.goto("/")
    box = page.get_by_test_id("search")
    results = page.get_by_test_id("search-result")
    # The index is about a second behind.
    wait_until(page, lambda: page.request.get("/api/search/", params={"q": WORD[:14]}).json()["results"] != [])
    box.press_sequentially(WORD[:14])
    expect(results.first).to_contain_text("<img src=x onerror=alert(1)>")
    expect(results.first.locator("mark")).to_have_text(WORD[:14])
    box.press("ArrowDown")
    expect(results.first).to_have_attribute("aria-selected", "true")
    box.press("Enter")
    page.wait_for_url(re.compile(f"/sessions/{lossy}/#span="))


def test_search_of_an_operator_finds_ids_only(lossy: str, page: Page) -> None:
    """Texts have no results and a note says why. Escape closes the list, and Enter filters the sessions."""
    page.goto("/")
    box = page.get_by_test_id("search")
    box.press_sequentially(WORD)
    expect(page.locator("#search-results")).to_contain_text("No results. Only ids, names and metadata are searched.")
    box.press("Escape")
    expect(page.locator("#search-results")).to_be_hidden()
    box.fill(lossy)
    box.press("Enter")
    expect(page.get_by_test_id("session-row")).to_have_count(1)
    expect(page.get_by_test_id("session-row")).to_contain_text("196 of 265")
    expect(page.get_by_test_id("session-row")).to_contain_text("staging")


def test_search_reports_an_unreachable_server(page: Page) -> None:
    """The error replaces the results, and the page stays usable."""
    page.goto("/")
    page.route("**/api/search/**", lambda route: route.abort())
    page.get_by_test_id("search").press_sequentially("anything")
    expect(page.locator("#search-results")).to_contain_text("Can't reach the server")


def test_order_and_columns_are_in_the_address_and_survive_the_way_back(lossy: str, page: Page) -> None:
    """The list is sorted by a click on a header. The back arrow of a session restores everything."""
    page.goto(f"/?q={lossy[:21]}&range=24h")
    page.locator("th[data-col=facts] a").click()
    expect(page).to_have_url(re.compile("sort=-facts"))
    expect(page.locator("th[data-col=facts]")).to_have_attribute("aria-sort", "descending")
    page.locator("summary", has_text="Columns").click()
    page.get_by_role("checkbox", name="Spans").uncheck()
    expect(page.locator("th[data-col=spans]")).to_be_hidden()
    expect(page).to_have_url(re.compile("hide=spans"))
    page.get_by_test_id("session-row").first.click()
    page.wait_for_url("**/sessions/**")
    page.get_by_role("link", name="All sessions").click()
    expect(page).to_have_url(re.compile("range=24h.*sort=-facts.*hide=spans"))
    expect(page.locator("th[data-col=spans]")).to_be_hidden()


def test_a_view_is_saved_under_a_name(page: Page) -> None:
    """Saved views are addresses and stay after a reload."""
    page.goto("/?state=lossy&range=7d")
    page.locator("summary", has_text="Views").click()
    page.get_by_label("Name of the view").fill("Lossy week")
    page.get_by_role("button", name="Save").click()
    page.goto("/")
    page.locator("summary", has_text="Views").click()
    page.get_by_role("link", name="Lossy week").click()
    expect(page).to_have_url(re.compile(r"\?state=lossy&range=7d$"))


def test_long_names_keep_their_end_and_long_models_fit(server: Server, page: Page) -> None:
    """Shards that differ at the end look different. A model of 300 characters widens nothing."""
    stem = f"nightly-import-of-all-customer-records-into-the-warehouse-of-the-region-{uuid.uuid4().hex}"
    for shard in ("shard-0001", "shard-0002"):
        data = {"model": LONG_MODEL[:200]}
        span = {"type": "span", "trace_id": f"{stem}-{shard}", "span_id": "1", "kind": "generation", "data": data}
        send(server.ingest_url, server.ingest_key, [span])
    page.goto(f"/?q={stem}")
    tails = page.get_by_test_id("session-row").locator(".cut-tail")
    assert sorted(tails.all_inner_texts()) == [f"{stem}-{shard}"[-14:] for shard in ("shard-0001", "shard-0002")]
    for tail in tails.all():
        box, cell = tail.bounding_box(), tail.locator("xpath=ancestor::td").bounding_box()
        assert box and cell and box["x"] + box["width"] <= cell["x"] + cell["width"] + 1
    page.goto("/")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_a_bar_of_a_trend_leads_to_its_sessions(lossy: str, page: Page) -> None:
    """Arrow keys move between bars with a tooltip. Enter shows the sessions behind one."""
    page.goto("/trends/")
    chart = page.locator("[data-testid=trend-chart][data-metric=facts]")
    expect(chart).to_contain_text("share of facts")
    chart.locator("svg a").last.focus()
    expect(chart.locator(".trend-tip")).to_contain_text(re.compile(r"^Facts kept: .*worst"))
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("trend-session").filter(has_text=lossy[:20]).first).to_contain_text("196 of 265")
    expect(page).to_have_url(re.compile("metric=facts"))
    page.select_option("#range", "7d")
    expect(page).to_have_url(re.compile("range=7d"))
    expect(page.locator("[data-testid=trend-chart]")).to_have_count(8)


def test_a_label_filters_the_list(lossy: str, page: Page) -> None:
    """A click on a tag shows the sessions that have it, and the menu of its kind says so."""
    page.goto(f"/?q={lossy}")
    page.get_by_test_id("session-row").locator("a.tag[data-label=environment]").click()
    expect(page).to_have_url(re.compile(r"/\?environment=staging$"))
    expect(page.locator("select#environment")).to_have_value("staging")
    rows = page.get_by_test_id("session-row")
    expect(rows.filter(has_text=lossy[-14:])).to_have_count(1)
    assert rows.count() == rows.filter(has_text="staging").count()
    page.goto("/?user=alice")
    expect(page.get_by_text("You don't have permission to filter by this label.")).to_be_visible()


def test_a_failed_refresh_keeps_the_list(lossy: str, server: Server, page: Page) -> None:
    """Rows stay while the server fails, and the next event brings them up to date."""
    failures = []

    def fail(route: Route) -> None:
        failures.append(route.request.url)
        route.fulfill(status=500, body="")

    page.goto(f"/?q={lossy}")
    row = page.get_by_test_id("session-row")
    expect(row).to_have_count(1)
    spans = row.locator("[data-col=spans]")
    count = int(spans.inner_text())
    page.route("**/*fragment=*", fail)
    span = {"type": "span", "trace_id": f"t-{lossy}", "kind": "tool", "name": "read_file"}
    send(server.ingest_url, server.ingest_key, [{**span, "span_id": uuid.uuid4().hex}])
    wait_until(page, lambda: bool(failures))
    expect(spans).to_have_text(str(count))
    page.unroute("**/*fragment=*", fail)
    send(server.ingest_url, server.ingest_key, [{**span, "span_id": uuid.uuid4().hex}])
    expect(spans).to_have_text(str(count + 2))


def test_trends_explain_an_invalid_and_an_empty_range(lossy: str, page: Page) -> None:
    page.goto("/trends/?range=yesterday")
    expect(page.get_by_role("alert")).to_contain_text("Showing the last 24 hours.")
    expect(page.get_by_test_id("trend-chart").first).to_be_visible()
    page.goto("/trends/?since=2001-01-01T00:00Z&until=2001-01-02T00:00Z")
    expect(page.get_by_role("heading", name="No events in this time range")).to_be_visible()


def test_an_alert_is_on_the_home_page(server: Server, sign_in: SignIn) -> None:
    """A rule of a developer fires after a loss, and everyone in the project sees it with a link to the session."""
    name, session = f"Rule {uuid.uuid4().hex[:8]}", f"alerting-{uuid.uuid4().hex[:8]}"
    developer = sign_in("developer")
    developer.goto("/alerts/new/")
    developer.fill("#id_name", name)
    developer.select_option("#id_kind", "facts_lost")
    developer.fill("#id_threshold", "5")
    developer.get_by_role("button", name="Create rule").click()
    expect(developer.get_by_test_id("alert-rule").filter(has_text=name)).to_be_visible()
    now = datetime.now(UTC).isoformat()
    span = {"type": "span", "trace_id": f"t-{session}", "span_id": "r", "started_at": now, "ended_at": now}
    facts = {"session_id": session, "facts_total": 40, "facts_kept": 21, "step": 1}
    send(server.ingest_url, server.ingest_key, [{**span, "event": "compact.retention", "properties": facts}])
    page = sign_in("operator")
    alert = page.get_by_test_id("home-alert").filter(has_text=name)

    def has_alert() -> bool:
        page.goto("/")
        return alert.count() > 0

    wait_until(page, has_alert)
    expect(alert).to_contain_text("19 facts")
    alert.get_by_role("link").click()
    expect(page).to_have_title(re.compile(session))


def test_an_operator_is_told_which_permission_is_missing(page: Page) -> None:
    page.goto("/alerts/new/")
    expect(page.get_by_role("heading", name="Access denied")).to_be_visible()
    expect(page.get_by_text("You don't have permission to")).to_be_visible()


def test_a_search_without_sessions_leads_to_messages(lossy: str, sign_in: SignIn) -> None:
    """The list is filtered by id and model. The button searches the text, and what needs attention makes room."""
    page = sign_in("developer")
    page.goto(f"/?q={WORD}")
    expect(page.get_by_text(f"No session ID or model contains {WORD}")).to_be_visible()
    expect(page.get_by_test_id("attention")).to_have_count(0)
    page.get_by_role("button", name="Search messages").click()
    expect(page.get_by_test_id("search-result").first).to_contain_text(WORD)
    page.goto("/?range=24h")
    expect(page.get_by_test_id("attention")).to_be_visible()


def test_the_list_fits_a_small_laptop(lossy: str, sign_in: SignIn) -> None:
    """No column is behind the edge, and the forms keep labels next to their fields."""
    page = sign_in("admin", width=1024)
    page.goto(f"/?q={lossy}")
    table = page.get_by_role("region", name="Sessions")
    assert table.evaluate("(e) => e.scrollWidth <= e.clientWidth")
    page.goto("/projects/default/redaction/")
    for field in ("pattern-name", "pattern-value", "pattern-reason", "exception-reason"):
        label, box = page.locator(f"label[for={field}]").bounding_box(), page.locator(f"#{field}").bounding_box()
        assert label and box and abs(label["y"] + label["height"] / 2 - box["y"] - box["height"] / 2) < 8, field
