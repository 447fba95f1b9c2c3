"""The catalog: every event class, in one ordered list."""

from __future__ import annotations

from types import ModuleType

from compact.events import (
    check_events,
    compaction_events,
    problem_events,
    recall_events,
    rehydration_events,
    request_events,
    summary_events,
)
from compact.events.base import Event


def _event_classes(module: ModuleType) -> list[type[Event]]:
    """Return the event classes that a module defines, in order. Base classes have no wire name."""
    classes = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Event)]
    return [event for event in classes if event.__module__ == module.__name__ and "name" in vars(event)]


_MODULES = (
    request_events,
    check_events,
    compaction_events,
    summary_events,
    rehydration_events,
    recall_events,
    problem_events,
)
CATALOG: tuple[type[Event], ...] = tuple(event for module in _MODULES for event in _event_classes(module))
_BY_NAME = {event.name: event for event in CATALOG}


def event_named(name: str) -> type[Event] | None:
    """Return the class for a wire name, or None if the catalog has no such event."""
    return _BY_NAME.get(name)
