"""The guard: what a compaction lost is found by rule, put back or listed; a missing constraint blocks."""

from __future__ import annotations

import pytest
from compact.messages import Message
from compact.summarizers import ExtractiveSummarizer, retention
from compact.summary.entries import Note, OpenItem
from compact.summary.structured_summary import StructuredSummary

REMOVED = [
    Message("user", "Never deploy to cluster eu-prod-7 on a Friday.", id="u1"),
    Message("assistant", "Wrote /srv/data/report_2024.csv for order ORD-4711, total $1280.50.", id="a1"),
    Message("assistant", "Still need to notify alice@example.org.", id="a2"),
]


def rendered(summary: StructuredSummary) -> list[Message]:
    return [Message("system", "You are an agent."), Message("assistant", summary.render()), Message("user", "go on")]


def checked(summary: StructuredSummary, *, max_tokens: int = 1000) -> retention.RetentionReport:
    return retention.check(REMOVED, rendered(summary), summary, max_tokens=max_tokens)


@pytest.mark.req("P-KR-4")
def test_a_good_summary_passes_whole():
    """Nothing to restore, nothing lost, the figure is one."""
    summary = ExtractiveSummarizer().summarize_span(REMOVED, max_tokens=1000)
    report = checked(summary)
    assert report.summary is summary
    assert report.lost == ()
    assert report.retention_pct == 1.0
    assert report.by_kind["constraint"] == {"found": 1, "kept": 1, "restored": 0, "lost": 0}


def test_what_is_missing_is_put_back_with_its_source():
    """An empty summary comes back with the constraint, the ids, numbers, paths and the open item."""
    report = checked(StructuredSummary())
    text = report.summary.render()
    for fact in (
        "Never deploy to cluster eu-prod-7",
        "ORD-4711",
        "$1280.50",
        "data/report_2024.csv",
        "alice@example.org",
    ):
        assert fact in text
    assert not report.is_blocking
    assert {finding.kind for finding in report.restored} >= {"constraint", "id", "number", "path", "open_item"}
    assert all(finding.source_ids for finding in report.restored)


def test_a_number_with_a_comma_is_one_number():
    """6,097 is not 097 as well: each part would be counted, put back, and listed as lost on its own."""
    removed = [Message("assistant", "The count of the north pool is 6,097 now.", id="a1")]
    report = retention.check(removed, rendered(StructuredSummary()), StructuredSummary(), max_tokens=1000)
    assert [finding.text for finding in report.restored if finding.kind == "number"] == ["6,097"]


def test_an_amount_and_its_unit_are_one_fact():
    """What is put back as 45.3% must not be listed as the lost number 45.3."""
    removed = [Message("assistant", "The share of the north pool is 45.3% now.", id="a1")]
    report = retention.check(removed, rendered(StructuredSummary()), StructuredSummary(), max_tokens=1000)
    assert [finding.text for finding in (*report.restored, *report.lost)] == ["45.3%"]


def test_a_constraint_that_cannot_be_put_back_blocks():
    """With no room at all the plan must not be committed, and the report says which instruction is missing."""
    report = checked(StructuredSummary(), max_tokens=5)
    assert report.is_blocking
    assert report.missing_constraints == ("Never deploy to cluster eu-prod-7 on a Friday.",)
    assert report.retention_pct < 1.0
    assert "constraint" in {finding.kind for finding in report.lost}


def test_a_constraint_is_put_back_at_the_cost_of_lesser_lines():
    """A full summary gives up facts for an instruction."""
    summary = StructuredSummary(facts=tuple(Note(f"row {n} holds value_{n}") for n in range(100)))
    size = len(summary.render()) // 3
    report = retention.check(REMOVED, rendered(summary), summary, max_tokens=size // 2)
    assert not report.is_blocking
    assert "Never deploy to cluster eu-prod-7 on a Friday." in report.summary.render()
    assert len(report.summary.facts) < 100


def test_an_instruction_of_the_previous_summary_is_guarded_too():
    """What an earlier round kept may not fade in this one."""
    previous = StructuredSummary(
        constraints=(Note("Never email the customer.", ("m1",)),), open_items=(OpenItem("Call the bank"),)
    )
    fresh = StructuredSummary(facts=(Note("something else"),))
    report = retention.check([], rendered(fresh), fresh, max_tokens=400, previous=previous)
    assert "Never email the customer." in report.summary.render()
    assert "Call the bank" in report.summary.render()


def test_a_pasted_log_line_is_not_an_instruction():
    """`can't` in a stack of symbols does not block a plan."""
    log = Message("user", "/tmp/x/1.py:3:1: E501 0xe9 [can't] {} :: <<<<>>>> ==== ---- 99%", id="u9")
    report = retention.check([log], [Message("assistant", "x")], StructuredSummary(), max_tokens=5)
    assert not report.is_blocking
