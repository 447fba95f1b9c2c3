"""The catalog: every event class, in the order of the documentation."""

from __future__ import annotations

from compact.events.base import Event
from compact.events.check_events import CHECK_EVENTS
from compact.events.compaction_events import COMPACTION_EVENTS
from compact.events.problem_events import PROBLEM_EVENTS
from compact.events.rehydration_events import REHYDRATION_EVENTS
from compact.events.summary_events import SUMMARY_EVENTS

CATALOG: tuple[type[Event], ...] = (
    *CHECK_EVENTS,
    *COMPACTION_EVENTS,
    *SUMMARY_EVENTS,
    *REHYDRATION_EVENTS,
    *PROBLEM_EVENTS,
)

_BY_NAME = {event.name: event for event in CATALOG}


def event_named(name: str) -> type[Event] | None:
    """Return the class for a wire name, or None if it is not one of ours."""
    return _BY_NAME.get(name)
