"""StructuredSummary: union and supersession, JSON and text round trips, six shapes."""

from __future__ import annotations

import json

import pytest
from compact.messages.span import SpanReference
from compact.summary.entries import (
    ArtifactReference,
    Command,
    Decision,
    Entity,
    FileTouched,
    Note,
    OpenItem,
    ToolOutcome,
)
from compact.summary.structured_summary import StructuredSummary

STYLES = ("task_state", "brief", "step_ledger", "requirements_ledger", "code_delta", "decision_log")


def full_summary(style: str = "task_state") -> StructuredSummary:
    return StructuredSummary(
        span=SpanReference(("m1", "m2", "m3"), 1, 2),
        style=style,
        current_task=Note("Fix the login timeout", ("m1",), 0, "user"),
        goals=(Note("Make login work on slow networks", ("m1",), 1),),
        constraints=(Note("Never touch the production database", ("m1",), 2), Note("At most $500", ("m1",), 3)),
        decisions=(
            Decision("Use a retry of 3", "the gateway drops packets", "logs", "patch", 1, sources=("m2",), order=4),
        ),
        open_items=(OpenItem("Write a test for the retry", "", "high", ("m2",), 5),),
        current_plan=(Note("then deploy to staging", ("m2",), 6),),
        files=(FileTouched("src/login.py", "added retry()", ("def retry(n):",), ("m2",), 7),),
        commands=(Command("pytest -q", "1 failed", ("FAILED tests/test_login.py",), ("m3",), 8),),
        tool_outcomes=(
            ToolOutcome(
                "get_user", "success", {"user_id": "u_42"}, None, "get_user(id=42)", ("mail: a@b.example",), ("m3",), 9
            ),
        ),
        errors=(Note("TimeoutError: gateway", ("m3",), 10),),
        facts=(Note("The gateway is at 10.0.0.7", ("m3",), 11),),
        artifacts=(ArtifactReference("art-1", "full log", "read if needed", ("m3",), 12),),
        entities=(Entity("u_42", "user_id", ("m3",), 13), Entity("ENT-221", "", ("m3",), 14)),
        sources=(Note("src/login.py", ("m2",), 15),),
    )


@pytest.mark.req("D-SUM-1")
def test_a_summary_survives_json_unchanged():
    """What is stored is what was made."""
    summary = full_summary()
    assert StructuredSummary.from_dict(json.loads(json.dumps(summary.to_dict()))) == summary


@pytest.mark.req("D-SUM-1", "S-SUM-4")
@pytest.mark.parametrize("style", STYLES)
def test_rendering_is_the_same_bytes_every_time_and_names_its_version(style):
    """Two renderings are identical and begin with the tag and the version of the format."""
    first, second = full_summary(style).render(version=3), full_summary(style).render(version=3)
    assert first == second
    assert first.startswith(f"<COMPACT-SUMMARY v3>\n[Summary v1.0 {style}]\n")


@pytest.mark.req("D-SUM-1")
@pytest.mark.parametrize("style", STYLES)
def test_a_rendered_summary_can_be_read_back_and_keeps_every_line(style):
    """A summary that only survives as text loses no constraint, path, number or id when it is read back."""
    text = full_summary(style).render(version=1)
    again = StructuredSummary.parse(text)
    assert again is not None
    rendered = again.render(version=1)
    for fact in (
        "Never touch the production database",
        "At most $500",
        "src/login.py",
        "pytest -q",
        "u_42",
        "10.0.0.7",
    ):
        assert fact in rendered
    assert [note.text for note in again.constraints] == ["Never touch the production database", "At most $500"]


@pytest.mark.parametrize("style", STYLES)
def test_lines_of_tool_output_can_be_read_back_whatever_they_begin_with(style):
    """A line that looks like a mark, a heading or an excerpt is still the line it was."""
    shown = ["plain text", "- removed", "$ make", "? why", "3. * point", "## Goals", "a b", "#!/bin/sh", "-1"]
    summary = StructuredSummary(
        style=style,
        facts=[Note(text, order=order, role="tool") for order, text in enumerate(shown)],
        commands=[Command("make", excerpts=("- gone", "## not a heading"), order=99)],
    )
    again = StructuredSummary.parse(summary.render())
    assert again is not None
    assert [note.text for note in again.facts] == shown
    assert again.commands[0].excerpts == ("- gone", "## not a heading")


def test_names_can_be_read_back_words_and_phrases_alike():
    """Each name keeps its role, whether it stands alone, among others or has spaces and commas."""
    names = [("src/a.py", "paths"), ("src/b.py", "paths"), ("task 7", "ids"), ("ENT-1", "ids"), ("1,024", "amounts")]
    summary = StructuredSummary(entities=[Entity(name, role) for name, role in names])
    again = StructuredSummary.parse(summary.render())
    assert again is not None
    assert {(entity.name, entity.role) for entity in again.entities} == set(names)


def test_text_that_is_not_ours_is_not_parsed():
    """Only a summary with the version line is read as one."""
    assert StructuredSummary.parse("Once upon a time") is None


@pytest.mark.req("S-SUM-1")
def test_task_state_has_a_section_for_each_part():
    """Goals, entities, constraints, decisions with rationale, open actions and sources each stand under a heading."""
    text = full_summary().render()
    for heading in ("Goals", "Entities", "Constraints", "Decisions", "Open actions", "Sources"):
        assert f"## {heading}\n" in text
    assert "Use a retry of 3 — because: the gateway drops packets" in text


@pytest.mark.req("S-SUM-2")
def test_decision_log_lines_have_the_four_parts_in_order_of_time():
    """Every ledger line is `[step_id] decision :: rationale :: inputs :: outputs`."""
    summary = StructuredSummary(
        style="decision_log",
        decisions=(
            Decision("second", "why2", sources=("m9",), order=9),
            Decision("first", "why1", "in", "out", sources=("m2",), order=2),
        ),
    )
    lines = summary.render().split("\n")[2:]
    assert lines == ["[m2] first :: why1 :: in :: out", "[m9] second :: why2 :: - :: -"]


@pytest.mark.req("S-SUM-3")
def test_code_delta_lists_file_and_change():
    """Each changed file is a bullet `file_path: change`."""
    assert "- src/login.py: added retry()\n" in full_summary("code_delta").render()


def test_merging_keeps_both_and_names_no_entry_twice():
    """Union by key: a repeated constraint is one constraint, with the sources of both."""
    older = StructuredSummary(constraints=(Note("Never deploy on Friday", ("m1",)),))
    newer = StructuredSummary(constraints=(Note("never deploy on  friday.", ("m7",)), Note("Use Go", ("m8",))))
    merged = older.merge(newer)
    assert [note.sources for note in merged.constraints] == [("m1", "m7"), ("m8",)]


def test_a_later_decision_on_the_same_topic_replaces_the_earlier_one():
    """The earlier database is gone, the unrelated decision stays."""
    older = StructuredSummary(decisions=(Decision("Use MySQL", topic="database"), Decision("Use Go", topic="language")))
    merged = older.merge(StructuredSummary(decisions=(Decision("Use Postgres", topic="database"),)))
    assert [decision.decision for decision in merged.decisions] == ["Use Go", "Use Postgres"]


def test_done_items_leave_the_open_list():
    """An open item that a later span reports as finished is no longer open; others are."""
    older = StructuredSummary(open_items=(OpenItem("- [ ] Write the retry test"), OpenItem("Deploy to staging")))
    merged = older.merge(StructuredSummary(completed=("Write the retry test: done",)))
    assert [item.description for item in merged.open_items] == ["Deploy to staging"]


def test_an_item_reopened_later_is_open():
    """What the later span itself lists as open stays, even if it also says that something was done."""
    older = StructuredSummary(open_items=(OpenItem("Write the retry test"),))
    newer = StructuredSummary(open_items=(OpenItem("Write the retry test"),), completed=("Write the retry test",))
    assert len(older.merge(newer).open_items) == 1


def test_merging_ten_summaries_in_a_row_loses_no_line():
    """Ten rounds of merging keep every constraint, id, number and path, and keep them in order of time."""
    merged = StructuredSummary()
    for step in range(10):
        merged = merged.merge(
            StructuredSummary(
                constraints=(f"Never exceed {step}00 requests",),
                facts=(f"order id ORD-{step}77 lives in data/{step}/orders.csv",),
            )
        )
    text = merged.render()
    places = [text.index(f"Never exceed {step}00 requests") for step in range(10)]
    assert places == sorted(places)
    assert all(f"ORD-{step}77 lives in data/{step}/orders.csv" in text for step in range(10))


def test_a_foreign_text_is_kept_word_for_word():
    """A summary written by a custom summariser becomes facts of the typed one."""
    summary = StructuredSummary.from_text("first line\n\nsecond: 42", ["a", "b"])
    assert [note.text for note in summary.facts] == ["first line", "second: 42"]
    assert summary.message_ids == ("a", "b")
