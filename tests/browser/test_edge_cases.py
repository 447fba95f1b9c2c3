"""Edge cases: inconsistent data, responses out of order, interrupted gestures and very large sessions."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from agent_session import START, Session, play, send
from conftest import SignIn
from live_server import Server
from playwright.sync_api import Page, expect

from .page_wait import wait_until

pytestmark = pytest.mark.browser


def unique_name(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def compacted_session(server: Server) -> str:
    name = unique_name("edge")
    send(server.ingest_url, server.ingest_key, play(name, turns=18))
    return name


def select(page: Page, position: int) -> None:
    page.locator(f'.span-row[aria-posinset="{position}"] .label').click()


def test_empty_list_does_not_reload_while_the_user_types(server: Server, sign_in: SignIn) -> None:
    page = sign_in("operator")
    page.goto(f"/?q={unique_name('none')}")
    expect(page.locator("live-state")).to_have_attribute("data-state", "live")
    with page.expect_response(lambda answer: "fragment=rows" in answer.url):
        send(server.ingest_url, server.ingest_key, play(unique_name("other"), turns=1))
    page.get_by_label("Search", exact=True).fill("half a wo")
    with page.expect_response(lambda answer: "fragment=rows" in answer.url):
        send(server.ingest_url, server.ingest_key, play(unique_name("other"), turns=1))
    expect(page.get_by_label("Search", exact=True)).to_have_value("half a wo")


def test_focus_stays_on_a_row_that_moves_to_the_top(server: Server, sign_in: SignIn) -> None:
    below, above = Session(unique_name("below")), Session(unique_name("above"))
    for session in (below, above):
        send(server.ingest_url, server.ingest_key, [session.trace(), *session.play_turn()])
    page = sign_in("operator")
    page.goto("/")
    expect(page.locator("live-state")).to_have_attribute("data-state", "live")
    link = page.get_by_test_id("session-row").get_by_role("link", name=below.session_id)
    link.focus()
    send(server.ingest_url, server.ingest_key, below.play_turn())
    expect(page.get_by_test_id("session-row").first).to_contain_text(below.session_id)
    expect(link).to_be_focused()


def test_long_model_name_does_not_widen_the_page(server: Server, sign_in: SignIn) -> None:
    send(server.ingest_url, server.ingest_key, play(unique_name("long"), turns=1, model="model-without-end" * 20))
    page = sign_in("operator", width=360)
    page.goto("/")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_name_from_right_to_left_is_read_in_order(server: Server, sign_in: SignIn) -> None:
    """The name is cut into two parts. The first one is on the right."""
    name = unique_name("שיחה ארוכה מאוד עם הלקוח על ההזמנה האחרונה שלו")
    send(server.ingest_url, server.ingest_key, play(name, turns=1))
    page = sign_in("operator")
    page.goto("/")
    link = page.get_by_test_id("session-row").locator(f'a[title="{name}"]')
    head, tail = link.locator(".cut-head").bounding_box(), link.locator(".cut-tail").bounding_box()
    assert head and tail and tail["x"] + tail["width"] <= head["x"] + 1


def test_long_names_that_begin_alike_differ_in_headings(server: Server, sign_in: SignIn) -> None:
    name = unique_name("nightly-billing-reconciliation-" * 6)
    send(server.ingest_url, server.ingest_key, play(name, turns=18))
    page = sign_in("operator")
    page.goto(f"/?q={name[-8:]}")
    page.get_by_test_id("session-row").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(name[-8:])
    page.get_by_role("link", name="View compaction 1").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(name[-8:])


def test_names_of_deep_spans_stay_visible(server: Server, sign_in: SignIn) -> None:
    session, parent = Session(unique_name("deep")), None
    events = [session.trace()]
    for level in range(30):
        span = session.span("tool", f"level-{level}", parent=parent, ms=1_000 - level)
        parent = span["span_id"]
        events.append(span)
    send(server.ingest_url, server.ingest_key, events)
    page = sign_in("operator", width=1024)
    page.goto(f"/sessions/{session.session_id}/")
    expect(page.get_by_test_id("span-row").first).to_be_visible()
    page.get_by_role("tree").press("End")
    label = page.get_by_test_id("span-row").filter(has_text="level-29").locator(".label")
    room = "(e) => e.closest('.cell-text').getBoundingClientRect().right - e.getBoundingClientRect().left"
    assert label.evaluate(room) > 60


def test_late_response_does_not_replace_a_newer_selection(sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("operator")
    page.goto(f"/sessions/{compacted_session}/")
    heading = page.locator("span-inspector .inspect-head h2")
    expect(heading).to_contain_text("Compaction 1")
    page.get_by_role("tree").press("Home")
    expect(heading).to_have_text("Turn 1")
    page.route("**/inspector/**", lambda route: None)
    with page.expect_request("**/inspector/**"):
        select(page, 2)
    select(page, 1)
    # The first request is aborted, and the selected span is already shown.
    expect(page.locator("span-inspector")).not_to_have_attribute("aria-busy", "true")
    page.unroute_all(behavior="ignoreErrors")
    expect(heading).to_have_text("Turn 1")
    expect(page.locator('.span-row[aria-selected="true"]')).to_contain_text("Turn 1")


def test_unfinished_span_does_not_stretch_the_axis_of_an_old_session(server: Server, sign_in: SignIn) -> None:
    session = Session(unique_name("dead"), started=datetime.now(UTC) - timedelta(days=200))
    agent = session.span("agent", "Never ended")
    del agent["ended_at"]
    send(server.ingest_url, server.ingest_key, [session.trace(), agent, *session.play_turn(), *session.play_turn()])
    page = sign_in("operator")
    page.goto(f"/sessions/{session.session_id}/")
    turn = page.get_by_test_id("span-row").filter(has_text="Turn 1").first
    expect(turn).to_be_visible()
    row, bar = turn.locator(".cell-bar").bounding_box(), turn.locator(".bar").bounding_box()
    assert row and bar and bar["width"] > row["width"] / 10


def test_trace_row_can_be_inspected(server: Server, sign_in: SignIn) -> None:
    name = unique_name("traces")
    events = []
    for number in range(2):
        part = Session(f"{name}-{number}", started=START + timedelta(hours=number))
        events += [
            {**part.trace(), "group_id": name, "name": f"Run {number}"},
            *(part.span("tool", f"step {n}") for n in range(3)),
        ]
    send(server.ingest_url, server.ingest_key, events)
    page = sign_in("operator")
    page.goto(f"/sessions/{name}/")
    expect(page.locator(".span-row[aria-posinset]").first).to_be_visible()
    page.get_by_role("tree").focus()
    page.keyboard.press("ArrowDown")
    inspector = page.get_by_test_id("inspector")
    expect(inspector.locator(".inspect-head h2")).to_have_text("Run 0")
    expect(inspector).to_contain_text("Trace with 3 spans")


def test_drag_ends_when_the_browser_releases_the_pointer(sign_in: SignIn, compacted_session: str) -> None:
    page = sign_in("operator")
    page.goto(f"/sessions/{compacted_session}/")
    expect(page.get_by_test_id("compaction-marker")).to_have_count(1)
    stage = page.locator(".timeline-stage")
    box = stage.bounding_box()
    assert box
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 200, middle)
    page.mouse.down()
    stage.evaluate("(stage) => stage.releasePointerCapture(1)")
    page.mouse.move(box["x"] + 200, box["y"] - 30)
    page.mouse.up()
    page.mouse.click(box["x"] + 500, middle)
    expect(page.locator('.span-row[aria-selected="true"]')).to_have_count(1)
    expect(page.get_by_role("button", name="Reset zoom")).to_be_hidden()


def test_drag_ends_when_the_pointer_comes_back_without_a_button(sign_in: SignIn, compacted_session: str) -> None:
    """A capture that is lost before the next event is not reported."""
    page = sign_in("operator")
    page.goto(f"/sessions/{compacted_session}/")
    expect(page.get_by_test_id("compaction-marker")).to_have_count(1)
    page.locator(".timeline-stage").evaluate(
        """(stage) => {
          const { left, top, height } = stage.getBoundingClientRect();
          stage.setPointerCapture = () => {};
          const send = (type, x, buttons) =>
            stage.dispatchEvent(new PointerEvent(type, { clientX: left + x, clientY: top + height / 2, buttons }));
          send("pointerdown", 200, 1);
          send("pointermove", 500, 0);
          send("pointerdown", 500, 1);
          send("pointerup", 500, 0);
        }"""
    )
    expect(page.locator('.span-row[aria-selected="true"]')).to_have_count(1)
    expect(page).to_have_url(re.compile("span="))
    expect(page.get_by_role("button", name="Reset zoom")).to_be_hidden()


def test_arrow_keys_move_along_a_crowded_timeline(server: Server, sign_in: SignIn) -> None:
    session = Session(unique_name("crowd"))
    events = [session.trace()]
    for turn in range(600):
        session.turn, session.at = turn, session.at + timedelta(seconds=1)
        events += session.check("0" * 16)
    send(server.ingest_url, server.ingest_key, events)
    page = sign_in("operator", width=400)
    page.goto(f"/sessions/{session.session_id}/", wait_until="networkidle")
    page.locator(".timeline-stage").focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
        expect(page.locator(".timeline-tip")).to_be_visible()


def test_events_cleared_during_a_pause_do_not_return(server: Server, sign_in: SignIn) -> None:
    session = Session(unique_name("cleared"))
    send(server.ingest_url, server.ingest_key, [session.trace(), *session.play_turn(tools=1)])
    page = sign_in("developer")
    page.goto("/tail/")
    rows = page.get_by_test_id("tail-row").filter(has_text=session.session_id)
    expect(rows.first).to_be_visible()
    page.get_by_test_id("live-toggle").click()
    page.get_by_label("Kind").fill("tool")
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="Clear").click()
    expect(rows).to_have_count(0)
    expect(page.locator(".tail-empty")).to_contain_text("No events match these filters")
    page.get_by_label("Kind").fill("")
    expect(page.locator(".tail-empty")).to_be_hidden()
    page.get_by_test_id("live-toggle").click()
    send(server.ingest_url, server.ingest_key, [session.span("tool", "afterwards")])
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("afterwards")


def test_tail_fills_a_taller_window(server: Server, sign_in: SignIn) -> None:
    session = Session(unique_name("tall"))
    send(server.ingest_url, server.ingest_key, [session.span("tool", f"step {n}") for n in range(150)])
    page = sign_in("developer", height=400)
    page.goto("/tail/")
    body = page.get_by_role("log")
    expect(page.get_by_text("step 149", exact=True)).to_be_visible()
    body.evaluate("(body) => { body.scrollTop = 600; }")
    expect(page.get_by_test_id("tail-row").first).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 2200})
    # The rows reach the bottom of the visible area.
    is_filled = """() => {
      const body = document.querySelector(".tail-body").getBoundingClientRect();
      const ends = [...document.querySelectorAll(".tail-row")].map((row) => row.getBoundingClientRect().bottom);
      return Math.max(...ends) >= body.bottom - 1;
    }"""
    wait_until(page, lambda: page.evaluate(is_filled))


def test_lists_of_hundreds_of_compactions_are_limited(server: Server, sign_in: SignIn) -> None:
    """The inspector lists the newest 200, and a compaction page the summaries next to its own."""
    session = Session(unique_name("hundreds"))
    events = [session.trace()]
    for turn in range(1, 211):
        session.turn, session.tokens, session.at = turn, 110_000, session.at + timedelta(seconds=5)
        events += session.check("0" * 16)
    send(server.ingest_url, server.ingest_key, events)
    page = sign_in("operator")
    page.goto(f"/sessions/{session.session_id}/")
    inspector = page.get_by_test_id("inspector")
    inspector.get_by_role("button", name="Close").click()
    expect(inspector.locator("li")).to_have_count(200)
    expect(inspector).to_contain_text("10 older")
    summary = page.locator("#summary")
    for number, versions, words in ((1, 11, "First summary"), (100, 21, "Lines compared with the previous version")):
        page.goto(f"/sessions/{session.session_id}/compactions/{number}/")
        expect(summary.locator(".segmented a")).to_have_count(versions)
        expect(summary.locator("[aria-current]")).to_have_text(f"v{number}")
        expect(summary).to_contain_text(words)


def test_raw_data_is_highlighted_and_split_between_characters(server: Server, sign_in: SignIn) -> None:
    session = Session(unique_name("letters"))
    data = {"city": "İİİİİİ needle", "long": "🧵" * 5_000, "odd": "a" + "🧵" * 5_000}
    send(server.ingest_url, server.ingest_key, [session.trace(), session.span("tool", "sew", data=data)])
    page = sign_in("developer")
    page.goto(f"/sessions/{session.session_id}/")
    page.locator(".span-row[aria-posinset] .label").click()
    page.get_by_role("tab", name="Raw").click()
    page.get_by_label("Search data").fill("NEEDLE")
    expect(page.locator("json-view mark")).to_have_text("needle")
    pieces = page.locator("json-view .chunk")
    assert pieces.count() > 2
    assert pieces.evaluate_all("(all) => all.every((piece) => piece.textContent.isWellFormed())")
