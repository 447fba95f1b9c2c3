"""The session list, the compaction page, the comparison and the tail."""

from __future__ import annotations

import csv
import uuid

import pytest
from agent_session import Session, play, send
from check_reports import SESSIONS, check_events
from conftest import SignIn
from live_server import Server
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pair(server: Server) -> tuple[str, str]:
    names = (f"one-{uuid.uuid4().hex[:8]}", f"two-{uuid.uuid4().hex[:8]}")
    for name, turns in zip(names, (30, 18), strict=True):
        send(server.ingest_url, server.ingest_key, play(name, turns=turns))
    return names


@pytest.mark.req("A-ONE-1")
def test_the_browser_counts_the_compactions_of_the_row(server: Server, sign_in: SignIn) -> None:
    """Checks of clients of all versions in one session. The timeline has a marker for each compaction."""
    name = f"all-{uuid.uuid4().hex[:8]}"
    for number, (_, parts) in enumerate(SESSIONS.values()):
        events = check_events(name, number, parts, minute=number)
        send(server.ingest_url, server.ingest_key, events)
    page = sign_in("operator")
    page.goto(f"/?q={name}")
    expected = page.get_by_test_id("session-row").locator("span.compactions").inner_text().strip()
    # Some of these clients report without a parent, where only the larger of several kinds counts.
    assert int(expected) == 6
    page.goto(f"/sessions/{name}/")
    expect(page.locator('[data-slot="compaction_count"]')).to_have_text(expected)
    # The script numbers them on the timeline. The one that failed has a marker without a number.
    expect(page.get_by_test_id("compaction-marker")).to_have_count(int(expected) + 1)


def test_list_filters_by_url_and_shows_new_sessions_live(
    server: Server, sign_in: SignIn, pair: tuple[str, str]
) -> None:
    page = sign_in("operator")
    for name in pair:
        page.goto(f"/?q={name}")
        expect(page.get_by_test_id("session-row")).to_have_count(1)
        expect(page.get_by_test_id("session-row")).to_contain_text(name)
    expect(page.get_by_test_id("session-row")).to_contain_text("28 of 29 (97%)")
    page.goto("/?state=running&q=nothing-like-it")
    expect(page.locator("main")).to_contain_text("No sessions match these filters")
    page.goto("/")
    expect(page.locator("live-state")).to_have_attribute("data-state", "live")
    fresh = Session(f"fresh-{uuid.uuid4().hex[:8]}")
    send(server.ingest_url, server.ingest_key, [fresh.trace(), *fresh.play_turn()])
    first = page.get_by_test_id("session-row").first
    expect(first).to_contain_text(fresh.session_id)
    running = page.locator(".stats .value").first
    before = int(running.text_content() or "")
    send(server.ingest_url, server.ingest_key, [{**fresh.span("agent", "long"), "ended_at": None}])
    expect(running).to_have_text(str(before + 1))
    first.click()
    page.wait_for_url(f"**/sessions/{fresh.session_id}/**")


def test_session_without_an_id_is_titled_by_its_trace_name(server: Server, sign_in: SignIn) -> None:
    trace = uuid.uuid4().hex
    span = {"type": "span", "trace_id": trace, "span_id": "1", "kind": "agent", "name": "reader"}
    send(
        server.ingest_url, server.ingest_key, [{"type": "trace", "trace_id": trace, "name": "Read <the> manual"}, span]
    )
    page = sign_in("developer")
    page.goto(f"/?q={trace}")
    expect(page.get_by_test_id("session-row")).to_contain_text(f"Read <the> manual {trace}")
    page.get_by_role("link", name="Read <the> manual").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Read <the> manual {trace}")


def test_older_sessions_are_on_the_next_page(server: Server, sign_in: SignIn) -> None:
    run = uuid.uuid4().hex[:8]
    events = []
    for number in range(55):
        session = Session(f"page-{run}-{number:02d}")
        events += [session.trace(), session.span("agent", "short")]
    send(server.ingest_url, server.ingest_key, events)
    page = sign_in("operator")
    page.goto(f"/?q={run}")
    expect(page.get_by_test_id("session-row")).to_have_count(50)
    page.get_by_role("link", name="Older sessions").click()
    expect(page.get_by_test_id("session-row")).to_have_count(5)


@pytest.mark.req("S-UI-1")
def test_compaction_page_shows_the_fate_of_every_message(sign_in: SignIn, pair: tuple[str, str]) -> None:
    page = sign_in("developer")
    page.goto(f"/sessions/{pair[0]}/compactions/2/")
    ledger = page.locator("fate-ledger")
    expect(ledger.locator("tbody tr")).to_have_count(64)
    # The text of these messages isn't stored, but the rule and the fate of each are known.
    ledger.get_by_test_id("ledger-row").first.click()
    expect(ledger.locator(".bubble")).to_contain_text("Rule: protected")
    expect(ledger.locator(".bubble")).to_contain_text("It stayed in the prompt, pinned.")
    ledger.get_by_test_id("ledger-row").first.click()
    ledger.get_by_role("button", name="dropped").click()
    expect(ledger.locator("tbody tr:visible")).to_have_count(1)
    ledger.get_by_test_id("ledger-row").click()
    expect(ledger.locator(".bubble")).to_contain_text("over budget: keep_recent_turns 6 -> 5")
    # The filter is part of the URL.
    page.reload()
    expect(ledger.locator("tbody tr:visible")).to_have_count(1)
    expect(page.locator(".flow rect").first).to_be_visible()
    expect(page.locator("#summary")).to_contain_text("Move the billing service to the new ledger")
    expect(page.get_by_text("It saves from the first call on")).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("link", name="CSV").click()
    with saved.value.path().open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 64
    assert {row["fate"] for row in rows} == {"pinned", "kept", "summarized", "cleared", "externalized", "dropped"}
    expect(page.locator(".story")).to_contain_text("28 of 29 facts kept (97%)")
    expect(page.locator("lazy-fragment")).to_contain_text("No removed content was needed again")
    page.get_by_role("link", name="Compare with 1").click()
    expect(page.get_by_role("heading", name="Only in A")).to_contain_text("40")
    expect(page.get_by_role("heading", name="Only in B")).to_contain_text("40")
    page.go_back()
    page.get_by_role("link", name="Previous").click()
    expect(page.locator("h1")).to_contain_text("Compaction 1")


def test_failed_compaction_is_not_counted_as_a_compaction(server: Server, sign_in: SignIn) -> None:
    """The list counts compactions that removed messages. The session page counts the others next to them."""
    session = Session(f"failed-{uuid.uuid4().hex[:8]}")
    events = [session.trace()]
    for _ in range(30):
        events += session.play_turn()
    second = [event for event in events if event.get("kind") == "compact.pruned_messages"][1]
    data = {"error_type": "InsufficientBudget", "message": "The protected messages don't fit"}
    error = session.span("compact.error", "error", parent=second["parent_id"], status="error", data=data)
    results = {"compact.pruned_messages", "compact.summary_created", "compact.retention"}
    kept = [e for e in events if e.get("kind") not in results or e.get("parent_id") != second["parent_id"]]
    send(server.ingest_url, server.ingest_key, [*kept, error])
    page = sign_in("operator")
    page.goto(f"/?q={session.session_id}")
    expect(page.get_by_test_id("session-row").locator("td.compacted")).to_have_text("1")
    page.goto(f"/sessions/{session.session_id}/")
    figure = page.locator(".figures > div").filter(has_text="Compactions")
    expect(figure).to_contain_text("1 + 1 failed")
    expect(page.locator(".story")).to_contain_text("1 compaction failed.")


def test_two_sessions_are_compared_from_the_list(sign_in: SignIn, pair: tuple[str, str]) -> None:
    page = sign_in("operator")
    page.goto("/?state=compacted")
    for name in pair:
        page.get_by_label(f"Select {name} for comparison").check()
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/compare/**")
    for name in pair:
        expect(page.get_by_role("link", name=name).first).to_be_visible()
    expect(page.get_by_role("row", name="Turns 30 18").or_(page.get_by_role("row", name="Turns 18 30"))).to_be_visible()
    for side in ("first", "second"):
        page.get_by_label(f"Compaction of the {side} session").fill("1")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", name="Different fate")).to_be_visible()
    page.get_by_label("Second session", exact=True).fill("no-such-session")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("main")).to_contain_text(
        "no-such-session doesn't exist, or you don't have access to its project"
    )
    expect(page.get_by_label("First session", exact=True)).not_to_have_value("")


@pytest.mark.req("K-UI-2")
def test_tail_follows_filters_and_pauses(server: Server, sign_in: SignIn) -> None:
    page = sign_in("developer")
    page.goto("/tail/")
    expect(page.locator("live-state")).to_have_attribute("data-state", "live")
    session = Session(f"tail-{uuid.uuid4().hex[:8]}")
    rows = page.get_by_test_id("tail-row").filter(has_text=session.session_id)
    send(server.ingest_url, server.ingest_key, [session.trace(), *session.play_turn(tools=1)])
    expect(rows.filter(has_text="trigger decision")).to_have_count(1)
    page.get_by_label("Kind").fill("tool")
    expect(rows).to_have_count(1)
    assert "kind=tool" in page.url
    send(server.ingest_url, server.ingest_key, session.play_turn(tools=2))
    expect(rows).to_have_count(3)
    # A wider filter shows events that the narrower one left out.
    page.get_by_label("Kind").fill("")
    page.get_by_label("Session", exact=True).fill(session.session_id)
    expect(rows.filter(has_text="trigger decision")).to_have_count(2)

    page.get_by_test_id("live-toggle").click()
    send(server.ingest_url, server.ingest_key, session.play_turn(tools=1))
    expect(page.locator("live-state")).to_contain_text("waiting")
    expect(rows.filter(has_text="trigger decision")).to_have_count(2)
    # Filters apply to the present events while paused.
    page.get_by_label("Kind").fill("compact.trigger")
    expect(rows).to_have_count(2)
    page.get_by_label("Kind").fill("")
    page.get_by_test_id("live-toggle").click()
    expect(rows.filter(has_text="trigger decision")).to_have_count(3)
    page.get_by_label("Regular expression").fill("turn \\d")
    expect(rows.filter(has_text="trigger decision")).to_have_count(0)
    page.get_by_label("Regular expression").fill("turn [")
    expect(page.locator(".toast")).to_contain_text("Invalid regular expression")


@pytest.mark.req("K-UI-2")
def test_tail_still_responds_after_a_filter_without_matches(server: Server, sign_in: SignIn) -> None:
    session = Session(f"long-{uuid.uuid4().hex[:8]}")
    send(server.ingest_url, server.ingest_key, [session.span("tool", f"step {number}") for number in range(150)])
    page = sign_in("developer")
    page.goto("/tail/")
    expect(page.get_by_text("step 149", exact=True)).to_be_visible()
    page.get_by_label("Kind").fill("nothing-like-it")
    expect(page.get_by_test_id("tail-row")).to_have_count(0)
    page.get_by_label("Kind").fill("tool")
    expect(page.get_by_text("step 149", exact=True)).to_be_visible()


@pytest.mark.req("K-UI-2")
def test_tail_handles_thousands_of_events(server: Server, sign_in: SignIn) -> None:
    page = sign_in("developer")
    page.goto("/tail/")
    expect(page.locator("live-state")).to_have_attribute("data-state", "live")
    session = Session(f"flood-{uuid.uuid4().hex[:8]}")
    events = [session.trace(), *(session.span("tool", f"call {n}") for n in range(3_000))]
    send(server.ingest_url, server.ingest_key, events)
    expect(page.get_by_test_id("tail-row").filter(has_text="call 2999")).to_be_visible()
    assert page.get_by_test_id("tail-row").count() <= 80


def test_keys_move_between_the_events_and_compactions_of_the_tail(server: Server, sign_in: SignIn) -> None:
    """Events far above the screen have no row until the focus moves to them."""
    name = f"keys-{uuid.uuid4().hex[:8]}"
    page = sign_in("developer")
    page.goto(f"/tail/?session={name}")
    expect(page.locator("live-state")).to_have_attribute("data-state", "live")
    send(server.ingest_url, server.ingest_key, play(name, turns=30))
    rows = page.get_by_test_id("tail-row")
    focused = page.locator('[data-testid="tail-row"]:focus-within')
    expect(rows.filter(has_text="Turn 30")).to_be_visible()
    page.keyboard.press("c")
    expect(focused).to_have_attribute("data-kind", "compact.pruned_messages")
    newest = focused.get_attribute("data-seq")
    page.keyboard.press("Shift+c")
    expect(focused).not_to_have_attribute("data-seq", newest or "")
    expect(focused).to_have_attribute("data-kind", "compact.pruned_messages")
    earlier = focused.get_attribute("data-seq")
    assert int(earlier or 0) < int(newest or 0)
    expect(focused).to_be_in_viewport()
    page.keyboard.press("k")
    expect(focused).not_to_have_attribute("data-seq", earlier or "")
    before = focused.get_attribute("data-seq")
    page.keyboard.press("j")
    expect(focused).to_have_attribute("data-seq", earlier or "")
    assert int(before or 0) < int(earlier or 0)


def test_keys_open_the_shortcuts_and_switch_the_theme(sign_in: SignIn) -> None:
    page = sign_in("operator")
    page.goto("/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Find sessions, compactions and actions")
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
