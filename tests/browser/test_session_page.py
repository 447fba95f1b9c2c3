"""The session page: timeline, tree and inspector work together and update live."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from agent_session import Session, play, send
from conftest import SignIn
from live_server import Server
from playwright.sync_api import Locator, Page, Route, expect

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def compacted_session(server: Server) -> str:
    """A session of 30 turns with two compactions."""
    name = f"page-{uuid.uuid4().hex[:8]}"
    send(server.ingest_url, server.ingest_key, play(name, turns=30))
    return name


def row(page: Page, label: str) -> Locator:
    return page.get_by_test_id("span-row").filter(has=page.get_by_text(label, exact=True)).first


def open_top(page: Page) -> None:
    """Move from the worst compaction, on which the page opens, to the first row."""
    expect(page.locator('.span-row[aria-selected="true"]')).to_be_visible()
    page.get_by_role("tree").press("Home")
    expect(page.locator('.span-row[aria-posinset="1"]')).to_be_visible()


@pytest.mark.req("K-UI-1", "S-UI-1")
def test_marker_selects_its_span_and_explains_the_compaction(sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("operator")
    page.goto(f"/sessions/{compacted_session}/")
    expect(page.get_by_test_id("compaction-marker")).to_have_count(2)
    page.get_by_test_id("compaction-marker").first.click()
    inspector = page.get_by_test_id("inspector")
    expect(inspector).to_contain_text("Compacted: 113,500 of 128,000 tokens (88.7%) reached the 85% trigger")
    expect(inspector).to_contain_text("keep recent turns", ignore_case=True)
    expect(page.locator('.span-row[aria-selected="true"]')).to_have_attribute("data-kind", "compact.check")
    assert "#span=" in page.url
    page.reload()
    expect(inspector).to_contain_text("reached the 85% trigger")


@pytest.mark.req("S-UI-1")
def test_marker_clicked_before_the_tree_has_loaded_selects_its_row(sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("operator")
    waiting: list[Route] = []

    # Playwright marks its handlers with an attribute, which a bound method of a list can't have.
    def hold(route: Route) -> None:
        waiting.append(route)

    page.route("**/tree/", hold)
    page.goto(f"/sessions/{compacted_session}/")
    page.get_by_test_id("compaction-marker").first.click()
    expect(page.get_by_test_id("inspector")).to_contain_text("reached the 85% trigger")
    expect(page.get_by_test_id("span-row")).to_have_count(0)
    for route in waiting:
        route.continue_()
    selected = page.locator('.span-row[aria-selected="true"]')
    expect(selected).to_have_attribute("data-kind", "compact.check")
    expect(selected).to_be_in_viewport()
    assert "#span=" in page.url


@pytest.mark.req("S-UI-1")
def test_summary_shows_its_text_and_latency(sign_in: SignIn, compacted_session: str) -> None:
    """Summaries are rendered as Markdown."""
    page = sign_in("developer")
    page.goto(f"/sessions/{compacted_session}/")
    page.get_by_label("Span kinds").select_option("compact")
    page.get_by_label("Search spans").fill("summary created")
    summary = row(page, "summary created")
    expect(summary.locator(".bar")).to_be_attached()
    expect(summary).to_contain_text("1.48 s")
    summary.click()
    inspector = page.get_by_test_id("inspector")
    expect(inspector.locator(".prose h2").first).to_have_text("Goals")
    # The summary is shown, so there is nothing to switch on.
    expect(inspector.get_by_role("switch")).to_have_count(0)
    expect(inspector).to_contain_text("1,480 ms")


def test_tree_works_with_the_keyboard(sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("operator")
    page.goto(f"/sessions/{compacted_session}/")
    tree = page.get_by_role("tree")
    expect(page.get_by_test_id("span-row").first).to_be_visible()
    selected = page.locator('.span-row[aria-selected="true"]')
    # The page opens on the worst compaction.
    expect(selected).to_contain_text("Compaction")
    tree.focus()
    page.keyboard.press("Home")
    selected = page.locator('.span-row[aria-selected="true"]')
    expect(selected).to_contain_text("Turn 1")
    expect(selected).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("ArrowRight")
    expect(selected).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowRight")
    expect(selected).to_contain_text("check")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(selected).to_contain_text("Turn 1")
    page.keyboard.press("ArrowLeft")
    expect(selected).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("End")
    expect(selected).to_contain_text("Turn 30")
    page.keyboard.press("Home")
    expect(selected).to_contain_text("Turn 1")
    page.keyboard.press("e")
    expect(selected).to_have_attribute("data-status", "error")
    page.keyboard.press("c")
    expect(page.get_by_test_id("inspector")).to_contain_text("Compacted")


def test_search_finds_rows_outside_of_the_screen(sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("operator")
    page.goto(f"/sessions/{compacted_session}/")
    expect(page.get_by_test_id("span-row").first).to_be_visible()
    open_top(page)
    assert row(page, "Turn 30").count() == 0
    page.keyboard.press("Control+f")
    page.keyboard.type("Turn 30")
    expect(row(page, "Turn 30")).to_be_visible()
    expect(page.locator('.span-row[aria-selected="true"]')).to_contain_text("Turn 30")
    page.keyboard.type(" and no such thing")
    expect(page.locator("span-tree")).to_contain_text("0 found")
    page.get_by_role("button", name="Filter", exact=True).click()
    expect(page.locator("span-tree")).to_contain_text("No spans match “Turn 30 and no such thing”")
    page.get_by_role("button", name="Clear search and filter").click()
    expect(page.get_by_test_id("turn-row").first).to_be_visible()


def test_the_toolbar_of_the_tree_is_one_line_on_a_small_laptop(sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("operator", width=1024, height=768)
    page.goto(f"/sessions/{compacted_session}/")
    search, collapse = page.get_by_label("Search spans"), page.get_by_role("button", name="Collapse")
    expect(page.get_by_role("button", name="errors")).to_be_visible()
    only_matches = page.get_by_role("button", name="Filter", exact=True)
    expect(only_matches).to_be_hidden()
    first, last = search.bounding_box(), collapse.bounding_box()
    assert first and last and abs(first["y"] - last["y"]) < 4 and first["width"] >= 100
    search.fill("read_file")
    expect(only_matches).to_be_visible()


def test_turns_are_rows_that_expand_to_their_spans(sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("developer")
    page.goto(f"/sessions/{compacted_session}/")
    open_top(page)
    turn = page.get_by_test_id("turn-row").first
    expect(turn).to_contain_text("Turn 1")
    expect(turn).to_contain_text("gpt-5")
    expect(turn.get_by_test_id("headroom")).to_contain_text("left")
    expect(turn).to_have_attribute("aria-expanded", "false")
    turn.click()
    expect(turn).to_have_attribute("aria-expanded", "true")
    expect(page.locator('.span-row[data-kind="generation"]').first).to_be_visible()
    turn.click()
    expect(turn).to_have_attribute("aria-expanded", "false")


def test_view_is_in_the_address_and_survives_reload_and_back(sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("operator")
    page.goto(f"/sessions/{compacted_session}/")
    expect(page.get_by_test_id("compaction-marker")).to_have_count(2)
    page.get_by_role("button", name="Time", exact=True).click()
    page.get_by_label("Span kinds").select_option("error")
    page.get_by_label("Search spans").fill("rate")
    page.get_by_label("Search spans").blur()
    page.keyboard.press("+")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_visible()
    expect(page).to_have_url(re.compile("zoom="))
    url = page.url
    page.goto("/compare/")
    page.go_back()
    for _ in range(2):
        expect(page.get_by_role("button", name="Time", exact=True)).to_have_attribute("aria-pressed", "true")
        expect(page.get_by_label("Span kinds")).to_have_value("error")
        expect(page.get_by_label("Search spans")).to_have_value("rate")
        expect(page.get_by_role("button", name="Reset zoom")).to_be_visible()
        assert page.url == url
        page.reload()


def test_another_change_of_the_view_keeps_a_new_zoom(sign_in: SignIn, compacted_session: str) -> None:
    """Also in the same moment, before the zoom is in the address."""
    page = sign_in("operator")
    page.goto(f"/sessions/{compacted_session}/")
    expect(page.get_by_test_id("compaction-marker")).to_have_count(2)
    page.get_by_label("Span kinds").evaluate(
        """(select) => {
          select.value = "error";
          select.dispatchEvent(new Event("change", { bubbles: true }));
          document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "+", bubbles: true }));
        }"""
    )
    expect(page).to_have_url(re.compile("kind=error"))
    expect(page.get_by_role("button", name="Reset zoom")).to_be_visible()


def test_kind_compaction_lists_only_checks_that_compacted(sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("operator")
    page.goto(f"/sessions/{compacted_session}/")
    expect(page.locator('.span-row[aria-selected="true"]')).to_be_visible()
    page.get_by_label("Span kinds").select_option("compact")
    page.get_by_role("tree").press("Home")
    # Rows are reused while scrolling, so their order in the document is not the order on screen.
    expect(page.locator('.span-row[data-kind="compact.check"]', has_text="Compaction 1")).to_be_visible()
    expect(page.locator('.span-row[data-kind="compact.check"]:not([data-compaction])')).to_have_count(0)


def test_wrong_clock_is_a_warning_and_no_axis(server: Server, sign_in: SignIn) -> None:
    session = Session(f"skew-{uuid.uuid4().hex[:8]}")
    wrong = session.span("tool", "old clock")
    wrong |= {"started_at": "1989-03-28T00:00:00Z", "ended_at": "1989-03-28T00:00:01Z"}
    send(server.ingest_url, server.ingest_key, [session.trace(), *session.play_turn(), *session.play_turn(), wrong])
    page = sign_in("operator")
    page.goto(f"/sessions/{session.session_id}/")
    expect(page.get_by_test_id("clock-skew")).to_contain_text("Clock skew: 1 span is more than 30 days away")
    expect(page.locator(".tree-axis")).not_to_contain_text(" h ")


def test_flame_view_shows_one_trace(sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("operator")
    page.goto(f"/sessions/{compacted_session}/")
    expect(page.locator('.span-row[aria-selected="true"]')).to_be_visible()
    page.get_by_role("button", name="Flame").click()
    expect(page.get_by_test_id("flame")).to_contain_text("spans")
    box = page.locator(".flame-canvas").bounding_box()
    assert box
    for share in (0.4, 0.45, 0.5, 0.55, 0.6):
        page.mouse.click(box["x"] + box["width"] * share, box["y"] + 30)
    expect(page).to_have_url(re.compile("span="))
    page.reload()
    expect(page.get_by_test_id("flame")).to_be_visible()


def test_the_flame_graph_counts_all_spans_and_hides_the_buttons_of_the_tree(
    sign_in: SignIn, compacted_session: str
) -> None:
    page = sign_in("operator")
    page.goto(f"/sessions/{compacted_session}/")
    expand = page.get_by_role("button", name="Expand")
    expect(expand).to_be_visible()
    page.get_by_role("button", name="Flame").click()
    span_count = page.locator('[data-slot="span_count"]').text_content()
    expect(page.locator(".flame-title")).to_contain_text(f", {span_count} spans")
    expect(expand).to_be_hidden()
    page.get_by_role("button", name="Flame").click()
    expect(expand).to_be_visible()


def test_an_error_with_a_fallback_is_a_warning_everywhere(server: Server, sign_in: SignIn) -> None:
    """The figures, the tree, the chart and the filters count the same errors."""
    name = f"fallback-{uuid.uuid4().hex[:8]}"
    # Errors of tools at turns 7 and 14, and two failed attempts of a summary. The second one names the fallback.
    send(server.ingest_url, server.ingest_key, play(name, turns=17, fails_at=15))
    page = sign_in("operator")
    page.goto(f"/sessions/{name}/")
    expect(page.locator('[data-slot="error_count"]')).to_have_text("3")
    expect(page.get_by_role("button", name="3 errors")).to_be_visible()
    lane = page.get_by_test_id("timeline-event")
    expect(lane.and_(page.locator('[data-kind="warning"], [data-kind="error"]'))).to_have_count(3)
    rows = page.get_by_test_id("span-row")
    page.get_by_label("Span kinds").select_option("warning")
    warnings = page.locator('.span-row[data-status="warning"]')
    expect(warnings).to_have_count(1)
    warnings.locator(".label").click()
    expect(page.get_by_test_id("inspector").locator(".inspect-head")).to_contain_text("Fallback used")
    page.get_by_label("Span kinds").select_option("error")
    expect(rows.and_(page.locator('[data-status="error"]'))).to_have_count(3)
    expect(warnings).to_have_count(0)


def test_a_compaction_without_a_reported_result_claims_nothing(server: Server, sign_in: SignIn) -> None:
    """The last events of the session were lost. Unknown figures are not zeros."""
    session = Session(f"lost-{uuid.uuid4().hex[:8]}")
    decision = session.span("compact.trigger_decision", "compact.trigger_decision", data={"triggered": True})
    send(server.ingest_url, server.ingest_key, [session.trace(), decision])
    page = sign_in("operator")
    page.goto(f"/sessions/{session.session_id}/")
    expect(page.locator('[data-slot="compaction_count"]')).to_have_text("0")
    story = "1 compaction started, but its result wasn't reported."
    expect(page.locator('[data-slot="story"]')).to_have_text(story)
    inspector = page.get_by_test_id("inspector")
    expect(inspector).to_contain_text("A compaction started. Its result wasn't reported.")
    expect(inspector).not_to_contain_text("0 messages")
    page.goto(f"/sessions/{session.session_id}/compactions/1/")
    expect(page.locator("h1")).to_have_text("Page not found")


def test_a_prompt_without_reported_parts_is_one_part(server: Server, sign_in: SignIn) -> None:
    """Agents whose logs are imported do not split their prompts."""
    session = Session(f"whole-{uuid.uuid4().hex[:8]}")
    data = {"triggered": True, "t_est": 24_300, "max_tokens": 200_000}
    pruned = {"tokens_before": 24_300, "tokens_after": 20_700, "pruned_count": 16}
    events = [
        session.trace(),
        session.span("compact.trigger_decision", "compact.trigger_decision", data=data),
        session.span("compact.pruned_messages", "compact.pruned_messages", data=pruned),
    ]
    send(server.ingest_url, server.ingest_key, events)
    page = sign_in("operator")
    page.goto(f"/sessions/{session.session_id}/")
    parts = page.get_by_test_id("inspector").locator(".parts")
    expect(parts.locator("tbody tr")).to_have_count(1)
    expect(parts).to_contain_text("Whole prompt")
    expect(parts).to_contain_text("20,700")
    expect(page.get_by_test_id("inspector")).to_contain_text("didn't report the parts of the prompt")


def test_no_span_opens_on_an_empty_tab(sign_in: SignIn, compacted_session: str) -> None:
    """Events of a compaction without messages and without a decision open on their metadata."""
    page = sign_in("operator")
    page.goto(f"/sessions/{compacted_session}/")
    row(page, "archival").locator(".label").click()
    inspector = page.get_by_test_id("inspector")
    expect(inspector.locator(".headline")).to_have_text("Transcript stored in ariadne")
    expect(inspector.get_by_role("tab", name="Metadata")).to_have_attribute("aria-selected", "true")
    inspector.get_by_role("tab", name="Decision").click()
    inspector.get_by_role("link", name="compaction", exact=False).last.click()
    expect(inspector.locator(".inspect-head h2")).to_contain_text("Compaction")


@pytest.mark.req("K-UI-1")
def test_timeline_axis_changes_and_zooms(sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("operator")
    page.goto(f"/sessions/{compacted_session}/")
    markers = page.get_by_test_id("compaction-marker")
    expect(markers).to_have_count(2)
    expect(page.locator('.span-row[aria-selected="true"]')).to_be_visible()
    for axis in ("Time", "Tokens", "Turns"):
        page.get_by_role("button", name=axis, exact=True).click()
        expect(markers).to_have_count(2)
    full_range = page.locator(".tree-axis").text_content()
    stage = page.locator(".timeline-stage")
    box = stage.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 360, box["y"] + 120)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 120, steps=4)
    page.mouse.up()
    reset_zoom = page.get_by_role("button", name="Reset zoom")
    expect(reset_zoom).to_be_visible()
    expect(markers).to_have_count(0)
    # The tree follows the zoom with its time axis and scroll position.
    axis = page.locator(".tree-axis")
    expect(axis).not_to_have_text(full_range or "")
    expect(row(page, "Turn 1")).to_have_count(0)
    reset_zoom.click()
    expect(axis).to_have_text(full_range or "")
    expect(markers).to_have_count(2)
    page.keyboard.press("+")
    expect(reset_zoom).to_be_visible()
    page.keyboard.press("0")
    expect(reset_zoom).to_be_hidden()


def test_running_span_is_completed_in_place(server: Server, sign_in: SignIn) -> None:
    session = Session(f"running-{uuid.uuid4().hex[:8]}", started=datetime.now(UTC) - timedelta(seconds=3))
    done = session.span("generation", "thinking-hard", ms=60_000)
    opened = {key: value for key, value in done.items() if key != "ended_at"}
    send(server.ingest_url, server.ingest_key, [session.trace(), opened])
    page = sign_in("operator")
    page.goto(f"/sessions/{session.session_id}/")
    expect(row(page, "thinking-hard")).to_have_attribute("data-status", "running")
    send(server.ingest_url, server.ingest_key, [done])
    expect(row(page, "thinking-hard")).to_have_attribute("data-status", "ok")
    expect(row(page, "thinking-hard")).to_contain_text("1 m 00 s")


@pytest.mark.req("K-ING-2")
def test_model_calls_are_drawn_until_the_client_reports_checks(server: Server, sign_in: SignIn) -> None:
    session = Session(f"calls-{uuid.uuid4().hex[:8]}")
    usage = {"gen_ai.usage.input_tokens": 942, "gen_ai.usage.output_tokens": 42}
    send(server.ingest_url, server.ingest_key, [session.trace(), session.span("generation", "chat", data=usage)])
    page = sign_in("operator")
    page.goto(f"/sessions/{session.session_id}/")
    timeline = page.get_by_test_id("token-timeline")
    expect(timeline).to_contain_text("as reported by the model provider")
    timeline.get_by_role("group", name="Timeline").press("ArrowRight")
    expect(timeline.get_by_role("status")).to_contain_text("942 tokens in, 42 out")
    expect(page.locator("live-state")).to_have_attribute("data-state", "live")
    send(server.ingest_url, server.ingest_key, session.play_turn())
    expect(timeline.locator(".legend")).to_be_visible()
    expect(page.locator('[data-slot="story"]')).to_contain_text("No compactions yet")


def test_a_recall_is_on_the_timeline_and_its_words_need_the_payload_permission(server: Server, sign_in: SignIn) -> None:
    session = Session(f"recall-{uuid.uuid4().hex[:8]}")
    events = [session.trace(), *session.play_turn()]
    counts = {"turn": 1, "passage_count": 2, "outside_prompt_count": 1, "limit": 5, "max_tokens": 2_000, "tokens": 90}
    passage = {"message_id": "m3", "role": "tool", "turn": 1, "text": "Invoice 40112 ships from dock 12."}
    payload = {"query": "dock of invoice 40112", "results": [passage]}
    events.append(session.span("compact.recall", "compact.recall", data=counts, payload=payload))
    send(server.ingest_url, server.ingest_key, events)
    for role, is_allowed in (("developer", True), ("operator", False)):
        page = sign_in(role)
        page.goto(f"/sessions/{session.session_id}/")
        mark = page.locator('.timeline-event[data-kind="recall"]')
        expect(mark).to_have_attribute("aria-label", re.compile("^Recall"))
        mark.click()
        inspector = page.get_by_test_id("inspector")
        expect(inspector).to_contain_text("2 passages found, 1 outside the prompt")
        if is_allowed:
            inspector.get_by_role("switch", name="Show content for this session").click()
            expect(inspector).to_contain_text("dock of invoice 40112")
            expect(inspector).to_contain_text("ships from dock 12")
        else:
            expect(inspector).to_contain_text("You don't have permission to view payloads")
            assert "40112" not in page.content()


@pytest.mark.req("P-KR-5")
def test_updates_appear_live_and_wait_while_paused(server: Server, sign_in: SignIn) -> None:
    session = Session(f"live-{uuid.uuid4().hex[:8]}")
    send(server.ingest_url, server.ingest_key, [session.trace(), *session.play_turn()])
    page = sign_in("operator")
    page.goto(f"/sessions/{session.session_id}/")
    expect(row(page, "Turn 1")).to_be_visible()
    expect(page.locator("live-state")).to_have_attribute("data-state", "live")
    send(server.ingest_url, server.ingest_key, session.play_turn())
    expect(row(page, "Turn 2")).to_be_visible()
    expect(page.locator('[data-slot="turn_count"]')).to_have_text("2")

    page.get_by_role("tree").focus()
    page.keyboard.press("Space")
    expect(page.locator("live-state")).to_have_attribute("data-state", "paused")
    send(server.ingest_url, server.ingest_key, session.play_turn())
    expect(page.locator("live-state")).to_contain_text("waiting")
    assert row(page, "Turn 3").count() == 0
    page.keyboard.press("Space")
    expect(row(page, "Turn 3")).to_be_visible()


def test_trace_that_moves_to_another_session_disappears(server: Server, sign_in: SignIn) -> None:
    session = Session(f"stays-{uuid.uuid4().hex[:8]}")
    other = Session(f"moves-{uuid.uuid4().hex[:8]}")
    # Until its trace arrives, a span belongs to the session that it names.
    guest = other.span("tool", "a guest", data={"session_id": session.session_id})
    send(server.ingest_url, server.ingest_key, [session.trace(), *session.play_turn(), guest])
    page = sign_in("operator")
    page.goto(f"/sessions/{session.session_id}/")
    expect(row(page, "a guest")).to_be_visible()
    expect(page.locator("live-state")).to_have_attribute("data-state", "live")
    send(server.ingest_url, server.ingest_key, [other.trace()])
    expect(row(page, "a guest")).to_have_count(0)
    expect(row(page, "Turn 1")).to_be_visible()


def test_reconnected_page_receives_missed_updates(server: Server, sign_in: SignIn) -> None:
    session = Session(f"gap-{uuid.uuid4().hex[:8]}")
    send(server.ingest_url, server.ingest_key, [session.trace(), *session.play_turn()])
    page = sign_in("operator")
    page.goto(f"/sessions/{session.session_id}/")
    expect(page.locator("live-state")).to_have_attribute("data-state", "live")
    page.context.set_offline(True)
    expect(page.locator("live-state")).to_have_attribute("data-state", "offline")
    send(server.ingest_url, server.ingest_key, session.play_turn())
    page.context.set_offline(False)
    send(server.ingest_url, server.ingest_key, session.play_turn())
    expect(row(page, "Turn 3")).to_be_visible()
    expect(row(page, "Turn 2")).to_be_visible()


@pytest.mark.req("P-SEC-1")
def test_content_requires_permission_and_one_switch_per_session(sign_in: SignIn, compacted_session: str) -> None:
    secret = "I will look at the invoices of turn 1."
    for person, may_view in (("operator", False), ("developer", True)):
        page = sign_in(person)
        page.goto(f"/sessions/{compacted_session}/")
        open_top(page)
        page.get_by_test_id("turn-row").first.click()
        call = page.locator('.span-row[data-kind="generation"]').first
        call.click()
        inspector = page.get_by_test_id("inspector")
        # The turn has the same switch. A click on it would be lost when the call replaces the turn.
        expect(inspector.get_by_role("heading", name="gpt-5", exact=True)).to_be_visible()
        expect(inspector.get_by_role("tab", name="Messages")).to_have_attribute("aria-selected", "true")
        expect(inspector).not_to_contain_text(secret)
        switch = inspector.get_by_role("switch", name="Show content for this session")
        if not may_view:
            expect(switch).to_have_count(0)
            expect(inspector).to_contain_text("You don't have permission to view payloads")
            continue
        switch.click()
        expect(inspector.get_by_test_id("chat")).to_contain_text(secret)
        # Other spans of the session need no further click.
        page.get_by_test_id("turn-row").first.click()
        expect(inspector.get_by_test_id("chat")).to_contain_text(secret)
        inspector.get_by_role("tab", name="Raw").click()
        call.click()
        expect(inspector.get_by_role("tab", name="Raw")).to_have_attribute("aria-selected", "true")
        expect(inspector.locator("lazy-fragment")).to_contain_text(secret)
        switch_off = inspector.get_by_role("tab", name="Messages")
        switch_off.click()
        switch.click()
        expect(inspector).not_to_contain_text(secret)


def test_offline_inspector_shows_an_error_and_not_the_last_span(sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("operator")
    page.goto(f"/sessions/{compacted_session}/")
    inspector = page.get_by_test_id("inspector")
    expect(inspector).to_contain_text("Compacted")
    page.route("**/inspector/**", lambda route: route.abort())
    page.get_by_role("tree").press("Home")
    expect(inspector).to_contain_text("Can't reach the server. Retrying…")
    expect(inspector).not_to_contain_text("Compacted")
    page.unroute("**/inspector/**")
    expect(inspector.get_by_role("tab", name="Decision")).to_be_visible()


def test_inspector_is_a_sheet_on_a_phone(sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("operator", width=390, height=844)
    page.goto(f"/sessions/{compacted_session}/")
    panel = page.locator(".inspector-panel")
    expect(page.locator('.span-row[aria-selected="true"]')).to_be_attached()
    expect(panel).not_to_have_attribute("data-open", "")
    page.get_by_test_id("turn-row").first.click()
    expect(panel).to_have_attribute("data-open", "")
    assert panel.evaluate("(panel) => getComputedStyle(panel).position") == "fixed"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    panel.get_by_role("button", name="Close").click()
    expect(panel).not_to_have_attribute("data-open", "")


def test_panels_resize_and_remember_their_size(sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("operator")
    for path in (f"/sessions/{compacted_session}/", f"/sessions/{compacted_session}/compactions/1/"):
        page.goto(path)
        handle = page.get_by_label("Left panel width").first
        handle.focus()
        before = int(handle.get_attribute("aria-valuenow") or 0)
        page.keyboard.press("ArrowLeft")
        expect(handle).to_have_attribute("aria-valuenow", str(before - 2))
        handle.hover()
        page.mouse.down()
        page.mouse.move(640, 500)
        page.mouse.up()
        expect(handle).to_have_attribute("aria-valuenow", "50")
        page.reload()
        expect(handle).to_have_attribute("aria-valuenow", "50")


def test_timeline_height_can_be_changed_and_reset(sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("operator")
    page.goto(f"/sessions/{compacted_session}/")
    handle, canvas = page.get_by_label("Upper panel height"), page.locator(".timeline-canvas")
    expect(page.get_by_test_id("compaction-marker").first).to_be_visible()
    before = canvas.get_attribute("height")
    handle.focus()
    page.keyboard.press("End")
    expect(handle).to_have_attribute("aria-valuenow", "80")
    expect(canvas).not_to_have_attribute("height", before)
    # A double click resets the height.
    handle.dblclick()
    expect(canvas).to_have_attribute("height", before)


def test_page_retries_until_the_tree_loads(sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("operator")
    page.route("**/tree/", lambda route: route.abort())
    page.goto(f"/sessions/{compacted_session}/")
    expect(page.locator("live-state")).to_have_attribute("data-state", "offline")
    page.unroute("**/tree/")
    expect(page.get_by_test_id("span-row").first).to_be_visible()
    expect(page.locator("live-state")).to_have_attribute("data-state", "live")


def test_link_to_a_missing_span_shows_a_message(sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("operator")
    page.goto(f"/sessions/{compacted_session}/#span=none:such")
    expect(page.get_by_text("This session has no such span")).to_be_visible()


def test_raw_data_search_steps_through_matches(sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("operator")
    page.goto(f"/sessions/{compacted_session}/")
    page.get_by_test_id("compaction-marker").first.click()
    # The page opens on another compaction, whose data has a search field too.
    expect(page.locator("span-inspector .inspect-head h2")).to_contain_text("Compaction 1")
    page.get_by_role("tab", name="Raw").click()
    field = page.get_by_label("Search data")
    field.fill("tokens")
    here = page.locator("json-view mark[aria-current]")
    place = "(mark) => [...document.querySelectorAll('json-view mark')].indexOf(mark)"
    assert here.evaluate(place) == 0
    field.press("Enter")
    assert here.evaluate(place) == 1
    field.press("Shift+Enter")
    field.press("Shift+Enter")
    assert here.evaluate(place) == page.locator("json-view mark").count() - 1


def test_the_axis_of_the_timeline_ends_above_small_prompts(server: Server, sign_in: SignIn) -> None:
    """Prompts of a tenth of the window fill the chart. One click shows the window, and the address keeps that."""
    session = Session(f"small-{uuid.uuid4().hex[:8]}")
    sizes = [
        {"t_est": tokens, "max_tokens": 200_000, "usage_pct": tokens / 200_000} for tokens in (9_000, 16_000, 20_000)
    ]
    estimates = [session.span("compact.token_estimate", "compact.token_estimate", data=size) for size in sizes]
    send(server.ingest_url, server.ingest_key, [session.trace(), *estimates])
    page = sign_in("operator")
    page.goto(f"/sessions/{session.session_id}/")

    def labels() -> list[str]:
        with page.expect_download() as saved:
            page.get_by_role("button", name="SVG").click()
        return re.findall(r">([^<]+)</text>", saved.value.path().read_text())

    whole_window = page.get_by_role("button", name="Whole window")
    expect(whole_window).to_have_attribute("aria-pressed", "false")
    assert "↑ window 200k" in labels()
    assert "100k" not in labels()
    whole_window.click()
    expect(page).to_have_url(re.compile("height=window"))
    page.reload()
    expect(whole_window).to_have_attribute("aria-pressed", "true")
    assert {"window 200k", "100k"} <= set(labels())


def test_timeline_downloads_as_svg_and_png(sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("operator")
    page.goto(f"/sessions/{compacted_session}/")
    expect(page.get_by_test_id("compaction-marker")).to_have_count(2)
    for name in ("SVG", "PNG"):
        with page.expect_download() as saved:
            page.get_by_role("button", name=name).click()
        assert saved.value.suggested_filename.endswith(name.lower())
        assert saved.value.path().stat().st_size > 1_000


def test_page_works_without_javascript(server: Server, sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("operator")
    context = page.context.browser.new_context(  # type: ignore[union-attr]
        java_script_enabled=False, storage_state=page.context.storage_state(), base_url=server.url
    )
    plain = context.new_page()
    plain.goto(f"/sessions/{compacted_session}/")
    expect(plain.locator(".story")).to_contain_text("2 compactions removed 72 messages from the prompt")
    expect(plain.get_by_test_id("inspector")).to_contain_text("Compactions")
    expect(plain.locator(".plain-row").first).to_be_visible()
    context.close()
