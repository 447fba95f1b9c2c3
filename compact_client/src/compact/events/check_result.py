"""The result of a check, decided from its events.

A compaction is counted by the event that says that messages left the prompt. `report_of` recognizes it from the event
alone, so the server can count it when it arrives, and a page can count it among the events of its check.

Today's `compact.pruned_messages` decides alone: there is one for each compaction, and no other event reports the same
one. Counting it is adding one when it arrives and subtracting one when a stored version of it is replaced, so the order
of events, replays and the number of commits do not matter.

Older clients report one compaction in several ways: the decision of document 000 has the number of pruned messages, an
overflow had a result of its own, and either may come with a `compact.pruned_messages` that has no fates. Such reports
are shared: of those with the same parent, only one kind counts (`deciding_kind`), the one with most events. That
depends only on how many events of each kind there are, so neither order nor replays matter, but it needs all events of
the parent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypeVar

from compact.events.base import Event
from compact.events.check_events import CheckEvent, TokenEstimateEvent, TriggerDecisionEvent
from compact.events.compaction_events import (
    BreakerOpenEvent,
    CompletedEvent,
    OverflowRecoveredEvent,
    PrunedMessagesEvent,
)
from compact.events.problem_events import ErrorEvent
from compact.events.summary_events import SummaryCreatedEvent

Outcome = Literal["not_needed", "futile", "running", "compacted", "failed"]
E = TypeVar("E", bound=Event)


class Report(Enum):
    """The way in which an event says that messages left the prompt."""

    NONE = "none"
    SOLE = "sole"
    """It is the only event that reports this compaction."""
    SHARED = "shared"
    """Events of other kinds may report the same compaction."""


_PRUNED, _OVERFLOW, _DECISION = PrunedMessagesEvent.name, OverflowRecoveredEvent.name, TriggerDecisionEvent.name
REPORTING_KINDS = (_PRUNED, _OVERFLOW, _DECISION)
"""Kinds that can report a compaction, those that say most about it first."""
_REPORTING = frozenset(REPORTING_KINDS)
# The server asks for each event that it stores, and the lookup of a member takes as long as the rest of the question.
_NONE, _SOLE, _SHARED = Report


def report_of(kind: str, data: Mapping[str, Any]) -> Report:
    """Return how an event, as it was received, reports a compaction."""
    if kind not in _REPORTING:
        return _NONE
    if kind == _PRUNED:
        return _SOLE if isinstance(data.get("fates"), dict) else _SHARED
    if kind == _DECISION:
        return _SHARED if data.get("triggered") is None and _is_positive(data.get("pruned_count")) else _NONE
    # Newer clients also send the window that they learned, and the fates in `compact.pruned_messages`.
    return _SHARED if "window_tokens" not in data and data.get("tokens_after") is not None else _NONE


def deciding_kind(counts: Mapping[str, int]) -> str:
    """Return the kind whose shared reports count, given the number of those of each kind with the same parent."""
    return max(REPORTING_KINDS, key=lambda kind: counts.get(kind, 0))


def freed_tokens(before: int | None, after: int | None) -> int:
    """Return the tokens that a compaction freed: none if a size is unknown, or if the prompt became larger."""
    return 0 if before is None or after is None else max(0, before - after)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The size of the prompt before and after a check, and what became of it.

    `outcome` is `futile` if the trigger was reached but nothing could be gained, and `running` if a compaction started
    and no event has reported its result.
    """

    before: int
    after: int | None
    outcome: Outcome

    @property
    def counts_as(self) -> Literal["compaction", "failure", "nothing"]:
        """The figure of the session that the check adds one to."""
        if self.outcome == "compacted":
            return "compaction"
        return "failure" if self.outcome == "failed" else "nothing"

    @classmethod
    def of(cls, events: Mapping[type[Event], Event], *, has_report: bool, is_open: bool) -> CheckResult:
        """Decide from the first event of each class.

        `has_report` is True if one of them counts as the report of a compaction, and `is_open` if the span of the check
        has not ended.
        """
        outcome = _outcome(events, has_report=has_report, is_open=is_open)
        sizes = _figures(events, "tokens_after", PrunedMessagesEvent, CheckEvent, OverflowRecoveredEvent)
        after = next((size for size in sizes if size is not None), None)
        return cls(_size_before(events), after if outcome == "compacted" else None, outcome)


def _size_before(events: Mapping[type[Event], Event]) -> int:
    """Return the size that the first event in this order reports."""
    counted = _figures(events, "t_est", TokenEstimateEvent, TriggerDecisionEvent)
    reported = _figures(events, "tokens_before", CheckEvent, PrunedMessagesEvent, OverflowRecoveredEvent)
    return next(filter(None, (*counted, *reported)), 0)


def _figures(events: Mapping[type[Event], Event], name: str, *classes: type[Event]) -> list[int | None]:
    return [getattr(events[event_class], name) for event_class in classes if event_class in events]


def _outcome(events: Mapping[type[Event], Event], *, has_report: bool, is_open: bool) -> Outcome:
    if has_report:
        return "compacted"
    if not _is_triggered(events):
        return "not_needed"
    completed = _get(events, CompletedEvent)
    is_unchanged = completed is not None and completed.details is not None and completed.details.get("changed") is False
    if PrunedMessagesEvent not in events and (is_unchanged or BreakerOpenEvent in events):
        return "futile"
    return "failed" if ErrorEvent in events and not is_open else "running"


def _is_triggered(events: Mapping[type[Event], Event]) -> bool:
    if OverflowRecoveredEvent in events:
        return True
    decision, check = _get(events, TriggerDecisionEvent), _get(events, CheckEvent)
    for event in (decision, check):
        if event is not None and event.triggered is not None:
            return event.triggered
    return PrunedMessagesEvent in events or SummaryCreatedEvent in events


def _get(events: Mapping[type[Event], Event], event_class: type[E]) -> E | None:
    event = events.get(event_class)
    return event if isinstance(event, event_class) else None


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
