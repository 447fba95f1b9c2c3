"""Events of any version of any client are read under today's names, and a check has one result."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from compact.events import CATALOG, Event
from compact.events.reading import CheckResult, Report, deciding_kind, event_of, read, report_of, upgrade
from hypothesis import given
from hypothesis import strategies as st

DOCUMENT_000 = {
    "model": "gpt-5-reasoning",
    "t_est": 112_345,
    "max": 128_000,
    "policy": {"trigger_pct": 0.85, "buffer": 1500},
    "kept": {"pinned": 3, "recent_turns": 6, "tool_pairs": 4},
    "pruned_count": 47,
}
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=5,
)


def test_the_decision_of_document_000_gets_todays_names() -> None:
    decision: Any = event_of("compact.trigger_decision", DOCUMENT_000)
    assert (decision.max_tokens, decision.triggered, decision.policy["hard_cap_buffer"]) == (128_000, True, 1500)
    assert decision.line() == "Compact: 112,345 of 128,000 tokens (87.8%)"
    # The data itself is stored as it was sent.
    assert "triggered" not in DOCUMENT_000


@pytest.mark.parametrize("event_class", CATALOG, ids=lambda event_class: event_class.name)
def test_an_upgrade_changes_nothing_the_second_time(event_class: type[Event]) -> None:
    data = upgrade(event_class.name, {**DOCUMENT_000, "breakdown": {"messages": 5}, "by_kind": {"id": {"found": 3}}})
    assert upgrade(event_class.name, data) == data


@given(event_class=st.sampled_from(CATALOG), data=st.data())
def test_any_properties_are_read(event_class: type[Event], data: st.DataObject) -> None:
    properties = {name: data.draw(VALUES) for name in event_class.public_fields()}
    assert isinstance(read(event_class, upgrade(event_class.name, properties)).line(), str)
    assert isinstance(report_of(event_class.name, properties), Report)


def test_a_property_of_another_type_is_none() -> None:
    estimate: Any = event_of("compact.token_estimate", {"t_est": "[hidden]", "max_tokens": True, "breakdown": [1]})
    assert (estimate.t_est, estimate.max_tokens, estimate.breakdown, estimate.usage_pct) == (None, None, None, None)


def test_an_unknown_event_has_no_class() -> None:
    assert event_of("compact.unknown", {}) is None


def test_events_that_report_a_compaction() -> None:
    pruned, decision, overflow = "compact.pruned_messages", "compact.trigger_decision", "compact.overflow_recovered"
    assert report_of(pruned, {"fates": {"summarized": 4}}) is Report.SOLE
    assert report_of(pruned, {"tokens_after": 40}) is Report.SHARED
    assert report_of(decision, DOCUMENT_000) is Report.SHARED
    assert report_of(decision, {**DOCUMENT_000, "triggered": True}) is Report.NONE
    assert report_of(decision, {**DOCUMENT_000, "pruned_count": 0}) is Report.NONE
    assert report_of(overflow, {"tokens_after": 60}) is Report.SHARED
    assert report_of(overflow, {"tokens_after": 60, "window_tokens": 100}) is Report.NONE
    assert report_of("compact.summary_created", {"summary_tokens": 4}) is Report.NONE
    assert deciding_kind({decision: 1, pruned: 1}) == pruned
    assert deciding_kind({decision: 2, pruned: 1}) == decision


def result(*events: tuple[str, dict[str, Any]], has_report: bool = False, is_open: bool = False) -> CheckResult:
    known = [event_of(f"compact.{name}", data) for name, data in events]
    return CheckResult.of({type(event): event for event in known if event}, has_report=has_report, is_open=is_open)


DECISION = ("trigger_decision", {"triggered": True, "t_est": 120})
ERROR = ("error", {"error_type": "InsufficientBudget"})
PRUNED = ("pruned_messages", {"tokens_before": 120, "tokens_after": 40})


@pytest.mark.parametrize(
    ("checked", "outcome", "counts_as"),
    [
        (result(("token_estimate", {"t_est": 120})), "not_needed", "nothing"),
        (result(("trigger_decision", {"triggered": False})), "not_needed", "nothing"),
        (result(DECISION), "running", "nothing"),
        (result(DECISION, ERROR, is_open=True), "running", "nothing"),
        (result(DECISION, ERROR), "failed", "failure"),
        (result(DECISION, ("completed", {"details": {"changed": False}})), "futile", "nothing"),
        (result(DECISION, ("breaker_open", {})), "futile", "nothing"),
        (result(("summary_created", {})), "running", "nothing"),
        (result(DECISION, ERROR, PRUNED, has_report=True), "compacted", "compaction"),
    ],
)
def test_the_outcome_of_a_check(checked: CheckResult, outcome: str, counts_as: str) -> None:
    assert (checked.outcome, checked.counts_as) == (outcome, counts_as)
    assert (checked.after is None) == (outcome != "compacted")


def test_reading_events_loads_no_optional_package() -> None:
    """The server's write path imports it in each decode process."""
    code = "import sys, compact.events.reading; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"tiktoken", "pydantic", "httpx", "yaml", "django", "openai"}.isdisjoint(modules)
