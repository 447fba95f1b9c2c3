"""StructuredSummary: merging, JSON and text round trips, and the six styles."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from compact.messages.span import SpanReference
from compact.summary.entries import (
    ArtifactReference,
    Command,
    Decision,
    Entity,
    FileTouched,
    Mentions,
    Note,
    OpenItem,
    Record,
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
        files=(FileTouched("src/login.py", "added retry()", "changed", ("def retry(n):",), ("m2",), 7),),
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
def test_json_round_trip_preserves_the_summary():
    """`from_dict` restores what `to_dict` returned."""
    summary = full_summary()
    assert StructuredSummary.from_dict(json.loads(json.dumps(summary.to_dict()))) == summary


def test_contents_have_every_text_but_the_ids_of_messages():
    """A secret in any field of a summary, or of its reserve, is found in its contents."""
    reserve = replace(full_summary(), completed=(Note("the deployment", ("m2",)),), mentions=(Mentions("u_43"),))
    summary = replace(full_summary(), reserve=reserve, records=(Record("flight HAT266: price=131", ("m3",)),))
    data = summary.to_dict()
    texts = set(texts_of(data)) - {"m1", "m2", "m3", data["schema"], data["style"]}
    assert {"the deployment", "u_43", "flight HAT266: price=131"} <= texts
    assert set(texts_of(summary.contents())) == texts


def texts_of(value: Any) -> Iterator[str]:
    """Yield all texts of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts_of(item)


@pytest.mark.req("D-SUM-1", "S-SUM-4")
@pytest.mark.parametrize("style", STYLES)
def test_rendering_is_deterministic_and_starts_with_the_version(style):
    """Two renderings are identical and start with the tag and the format version."""
    first, second = full_summary(style).render(version=3), full_summary(style).render(version=3)
    assert first == second
    assert first.startswith(f"<COMPACT-SUMMARY v3>\n[Summary v1.0 {style}]\n")


@pytest.mark.req("D-SUM-1")
@pytest.mark.parametrize("style", STYLES)
def test_parsing_a_rendered_summary_keeps_every_fact(style):
    """A summary that only survives as text loses no constraint, path, number or id when it is parsed."""
    text = full_summary(style).render(version=1)
    parsed = StructuredSummary.parse(text)
    assert parsed is not None
    rendered = parsed.render(version=1)
    for fact in (
        "Never touch the production database",
        "At most $500",
        "src/login.py",
        "pytest -q",
        "u_42",
        "10.0.0.7",
    ):
        assert fact in rendered
    assert [note.text for note in parsed.constraints] == ["Never touch the production database", "At most $500"]


@pytest.mark.parametrize("style", STYLES)
def test_parsing_keeps_tool_output_that_looks_like_markup(style):
    """Lines that look like a marker, a heading or an excerpt are parsed as tool output."""
    lines = ["plain text", "- removed", "$ make", "? why", "3. * point", "## Goals", "a b", "#!/bin/sh", "-1"]
    summary = StructuredSummary(
        style=style,
        facts=[Note(text, order=order, role="tool") for order, text in enumerate(lines)],
        commands=[Command("make", excerpts=("- gone", "## not a heading"), order=99)],
    )
    parsed = StructuredSummary.parse(summary.render())
    assert parsed is not None
    assert [note.text for note in parsed.facts] == lines
    assert parsed.commands[0].excerpts == ("- gone", "## not a heading")


def test_parsing_keeps_the_names_and_roles_of_entities():
    """Single words, lists of words, and phrases with spaces or commas all keep their role."""
    names = [("src/a.py", "paths"), ("src/b.py", "paths"), ("task 7", "ids"), ("ENT-1", "ids"), ("1,024", "amounts")]
    summary = StructuredSummary(entities=[Entity(name, role) for name, role in names])
    parsed = StructuredSummary.parse(summary.render())
    assert parsed is not None
    assert {(entity.name, entity.role) for entity in parsed.entities} == set(names)


def test_other_text_is_not_parsed():
    """Only text with the format line is a rendered summary."""
    assert StructuredSummary.parse("A short story") is None


@pytest.mark.req("S-SUM-1")
def test_task_state_has_a_section_for_each_field():
    """Goals, entities, constraints, decisions with rationale, open actions and sources have their own heading."""
    text = full_summary().render()
    for heading in ("Goals", "Entities", "Constraints", "Decisions", "Open actions", "Sources"):
        assert f"## {heading}\n" in text
    assert "Use a retry of 3 — because: the gateway drops packets" in text


@pytest.mark.req("S-SUM-2")
def test_decision_log_lines_have_four_parts_and_are_chronological():
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
def test_code_delta_lists_each_file_with_its_change():
    """Each changed file is a bullet `file_path: change`."""
    assert "- src/login.py: added retry()\n" in full_summary("code_delta").render()


def test_merging_deduplicates_entries_and_unites_their_sources():
    """A constraint that both summaries contain is kept once, with the sources of both."""
    older = StructuredSummary(constraints=(Note("Never deploy on Friday", ("m1",)),))
    newer = StructuredSummary(constraints=(Note("never deploy on  friday.", ("m7",)), Note("Use Go", ("m8",))))
    merged = older.merge(newer)
    assert [note.sources for note in merged.constraints] == [("m1", "m7"), ("m8",)]


def test_a_later_decision_on_the_same_topic_replaces_the_earlier_one():
    """The earlier database is replaced, and the unrelated decision stays."""
    older = StructuredSummary(decisions=(Decision("Use MySQL", topic="database"), Decision("Use Go", topic="language")))
    merged = older.merge(StructuredSummary(decisions=(Decision("Use Postgres", topic="database"),)))
    assert [decision.decision for decision in merged.decisions] == ["Use Go", "Use Postgres"]


def test_completed_items_are_removed_from_the_open_items():
    """Only the open item that a later span reports as finished is removed."""
    older = StructuredSummary(open_items=(OpenItem("- [ ] Write the retry test"), OpenItem("Deploy to staging")))
    merged = older.merge(StructuredSummary(completed=("Write the retry test: done",)))
    assert [item.description for item in merged.open_items] == ["Deploy to staging"]


def test_an_item_that_the_later_summary_lists_as_open_stays_open():
    """An open item of the later summary wins over a completed item with the same text."""
    older = StructuredSummary(open_items=(OpenItem("Write the retry test"),))
    newer = StructuredSummary(open_items=(OpenItem("Write the retry test"),), completed=("Write the retry test",))
    assert len(older.merge(newer).open_items) == 1


def test_merging_ten_summaries_loses_no_line():
    """Every constraint, id, number and path survives, in chronological order."""
    merged = StructuredSummary()
    for step in range(10):
        merged = merged.merge(
            StructuredSummary(
                constraints=(f"Never exceed {step}00 requests",),
                facts=(f"order id ORD-{step}77 lives in data/{step}/orders.csv",),
            )
        )
    text = merged.render()
    positions = [text.index(f"Never exceed {step}00 requests") for step in range(10)]
    assert positions == sorted(positions)
    assert all(f"ORD-{step}77 lives in data/{step}/orders.csv" in text for step in range(10))


def test_text_of_a_custom_summarizer_is_kept_verbatim():
    """Its lines become the facts of a typed summary."""
    summary = StructuredSummary.from_text("first line\n\nsecond: 42", ["a", "b"])
    assert [note.text for note in summary.facts] == ["first line", "second: 42"]
    assert summary.message_ids == ("a", "b")


@pytest.mark.parametrize("style", STYLES)
def test_output_without_its_call_does_not_stand_under_another_call(style):
    """It has a label of its own, and is still tool output after a round trip."""
    summary = StructuredSummary(
        style=style,
        commands=(Command("Bash(git status)", excerpts=("On branch main",), order=1),),
        facts=(Note("src/io.py:12: def read():", order=2, role="tool"), Note("The reader is next.", order=3)),
    )
    text = summary.render()
    assert "- output or pasted text:\n src/io.py:12: def read():\n- The reader is next." in text
    assert StructuredSummary.parse(text).render() == text
