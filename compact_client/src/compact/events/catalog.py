"""The catalog: every event class, in one ordered list."""

from __future__ import annotations

from compact.events.base import Event
from compact.events.check_events import (
    CheckEvent,
    QualityEvent,
    TokenEstimateEvent,
    TriggerDecisionEvent,
)
from compact.events.compaction_events import (
    ArchivalEvent,
    BreakerOpenEvent,
    CheckStartedEvent,
    ClearedEvent,
    CompletedEvent,
    DroppedEvent,
    ExternalizedEvent,
    OverflowRecoveredEvent,
    PolicyAppliedEvent,
    ProposalGeneratedEvent,
    PrunedMessagesEvent,
    SummarizedEvent,
)
from compact.events.problem_events import (
    ErrorEvent,
    WarningEvent,
)
from compact.events.rehydration_events import (
    RehydratedEvent,
    RehydrationBlockedEvent,
)
from compact.events.summary_events import (
    RetentionEvent,
    SummaryCreatedEvent,
)

CATALOG: tuple[type[Event], ...] = (
    CheckEvent,
    TokenEstimateEvent,
    TriggerDecisionEvent,
    QualityEvent,
    CheckStartedEvent,
    PolicyAppliedEvent,
    ArchivalEvent,
    ProposalGeneratedEvent,
    ExternalizedEvent,
    SummarizedEvent,
    ClearedEvent,
    DroppedEvent,
    PrunedMessagesEvent,
    CompletedEvent,
    BreakerOpenEvent,
    OverflowRecoveredEvent,
    RetentionEvent,
    SummaryCreatedEvent,
    RehydratedEvent,
    RehydrationBlockedEvent,
    ErrorEvent,
    WarningEvent,
)

_BY_NAME = {event.name: event for event in CATALOG}


def event_named(name: str) -> type[Event] | None:
    """Return the class for a wire name, or None if the catalog has no such event."""
    return _BY_NAME.get(name)
