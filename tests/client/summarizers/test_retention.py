"""The retention check: lost facts are detected, then restored or reported, and a missing constraint blocks the plan."""

from __future__ import annotations

import pytest
from compact.messages import Message, ToolCall
from compact.summarizers import ExtractiveSummarizer, retention
from compact.summary.entries import Entity, Note, OpenItem
from compact.summary.structured_summary import StructuredSummary

REMOVED = [
    Message("user", "Never deploy to cluster eu-prod-7 on a Friday.", id="u1"),
    Message("assistant", "Wrote /srv/data/report_2024.csv for order ORD-4711, total $1280.50.", id="a1"),
    Message("assistant", "Still need to notify alice@example.org.", id="a2"),
]


def prompt_with(summary: StructuredSummary) -> list[Message]:
    return [Message("system", "You are an agent."), Message("assistant", summary.render()), Message("user", "go on")]


def check(summary: StructuredSummary, *, max_tokens: int = 1000) -> retention.RetentionReport:
    return retention.restore_lost_facts(REMOVED, prompt_with(summary), summary, max_tokens=max_tokens)


@pytest.mark.req("P-KR-4")
def test_a_complete_summary_is_unchanged():
    """Nothing is restored or lost, and the retention is 100%."""
    summary = ExtractiveSummarizer().summarize_span(REMOVED, max_tokens=1000)
    report = check(summary)
    assert report.summary is summary
    assert report.lost == ()
    assert report.weighted_retention == 1.0
    assert report.by_kind["constraint"] == {"found": 1, "kept": 1, "restored": 0, "lost": 0}


SHORT_SESSION = [
    Message("user", "Move the invoice export to the new billing service.", id="u1"),
    Message("assistant", "I'll use Postgres because the export needs transactions.", id="a1"),
    Message(
        "assistant",
        "",
        tool_calls=(ToolCall("c1", "Write", '{"file_path": "src/export.py", "content": "x = 1"}'),),
        id="a2",
    ),
    Message("tool", "File created", tool_call_id="c1", id="t1"),
    Message("assistant", "The column types still need to be checked.", id="a3"),
]


@pytest.mark.req("A-SUM-2")
def test_goals_decisions_open_items_and_files_are_counted():
    """A summary without them is not reported as complete, and one with them is."""
    empty = StructuredSummary()
    report = retention.restore_lost_facts(SHORT_SESSION, [Message("assistant", "x")], empty, max_tokens=5)
    kinds = ("goal", "decision", "open_item", "file")
    assert [(report.kept_count(kind), report.total_count(kind)) for kind in kinds] == [(0, 1)] * 4
    assert report.kept_count() == 0
    assert report.weighted_retention == 0.0
    summary = ExtractiveSummarizer().summarize_span(SHORT_SESSION, max_tokens=1000)
    report = retention.restore_lost_facts(SHORT_SESSION, prompt_with(summary), summary, max_tokens=1000)
    assert [(report.kept_count(kind), report.total_count(kind)) for kind in kinds] == [(1, 1)] * 4
    assert report.kept_count() == report.total_count()


@pytest.mark.parametrize("style", ["task_state", "decision_log", "step_ledger", "code_delta"])
def test_goals_decisions_and_open_items_are_restored(style):
    """An empty summary of any style is repaired."""
    empty = StructuredSummary(style=style)
    report = retention.restore_lost_facts(SHORT_SESSION, [Message("assistant", "x")], empty, max_tokens=500)
    kinds = ("goal", "decision", "open_item")
    assert [report.by_kind[kind]["restored"] for kind in kinds] == [1] * 3


def test_missing_facts_are_restored_with_their_source():
    """An empty summary is repaired with the constraint, the ids, numbers, paths and the open item."""
    report = check(StructuredSummary())
    text = report.summary.render()
    for expected in (
        "Never deploy to cluster eu-prod-7",
        "ORD-4711",
        "$1280.50",
        "data/report_2024.csv",
        "alice@example.org",
    ):
        assert expected in text
    assert not report.is_blocking
    assert {fact.kind for fact in report.restored} >= {"constraint", "id", "number", "path", "open_item"}
    assert all(fact.source_ids for fact in report.restored)


def test_a_name_that_the_summary_lists_is_kept():
    """Without the slash behind it, `templates` is only known to be a path by its label."""
    removed = [Message("assistant", "Copy templates/ to the image.", id="a1")]
    summary = StructuredSummary(entities=(Entity("templates", "said paths", ("a1",)),))
    report = retention.restore_lost_facts(removed, prompt_with(summary), summary, max_tokens=1000)
    assert (report.kept_count("path"), report.total_count("path")) == (1, 1)


def test_a_number_with_a_comma_is_one_number():
    """6,097 is a single fact. Its parts 6 and 097 are not counted, restored or reported separately."""
    removed = [Message("assistant", "The count of the north pool is 6,097 now.", id="a1")]
    report = retention.restore_lost_facts(
        removed, prompt_with(StructuredSummary()), StructuredSummary(), max_tokens=1000
    )
    assert [fact.text for fact in report.restored if fact.kind == "number"] == ["6,097"]


def test_an_amount_and_its_unit_are_one_fact():
    """If 45.3% is restored, the number 45.3 is not reported as lost."""
    removed = [Message("assistant", "The share of the north pool is 45.3% now.", id="a1")]
    report = retention.restore_lost_facts(
        removed, prompt_with(StructuredSummary()), StructuredSummary(), max_tokens=1000
    )
    assert [fact.text for fact in (*report.restored, *report.lost)] == ["45.3%"]


def test_a_constraint_that_does_not_fit_blocks_the_plan():
    """The report names the missing instruction."""
    report = check(StructuredSummary(), max_tokens=5)
    assert report.is_blocking
    assert report.missing_constraints == ("Never deploy to cluster eu-prod-7 on a Friday.",)
    assert report.weighted_retention < 1.0
    assert "constraint" in {fact.kind for fact in report.lost}


def test_a_restored_constraint_displaces_less_important_lines():
    """A full summary drops facts to make room for an instruction."""
    summary = StructuredSummary(facts=tuple(Note(f"row {n} holds value_{n}") for n in range(100)))
    size = len(summary.render()) // 3
    report = retention.restore_lost_facts(REMOVED, prompt_with(summary), summary, max_tokens=size // 2)
    assert not report.is_blocking
    assert "Never deploy to cluster eu-prod-7 on a Friday." in report.summary.render()
    assert len(report.summary.facts) < 100


def test_instructions_of_the_previous_summary_are_checked_too():
    """Constraints and open items of an earlier compaction survive this one."""
    previous = StructuredSummary(
        constraints=(Note("Never email the customer.", ("m1",)),), open_items=(OpenItem("Call the bank"),)
    )
    fresh = StructuredSummary(facts=(Note("something else"),))
    report = retention.restore_lost_facts([], prompt_with(fresh), fresh, max_tokens=400, previous=previous)
    assert "Never email the customer." in report.summary.render()
    assert "Call the bank" in report.summary.render()


def test_a_pasted_log_line_is_not_an_instruction():
    """`can't` among symbols does not block a plan."""
    log = Message("user", "/tmp/x/1.py:3:1: E501 0xe9 [can't] {} :: <<<<>>>> ==== ---- 99%", id="u9")
    report = retention.restore_lost_facts([log], [Message("assistant", "x")], StructuredSummary(), max_tokens=5)
    assert not report.is_blocking
