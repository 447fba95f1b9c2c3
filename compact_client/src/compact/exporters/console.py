"""Print events as readable lines, with color on a terminal.

Lines go to stderr, so that the agent's own output can still be piped. NO_COLOR and FORCE_COLOR are honored.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Literal, TextIO

from compact.events import (
    ArchivalEvent,
    ErrorEvent,
    OverflowRecoveredEvent,
    PrunedMessagesEvent,
    SummaryCreatedEvent,
    WarningEvent,
)
from compact.events.reading import event_of
from compact.redaction import default_redactor

Style = Literal["error", "warning", "triggered", "done", "dim"]
_ANSI_COLORS: Mapping[Style, str] = {"error": "31", "warning": "33", "triggered": "35", "done": "32", "dim": "2"}
_RESULTS = frozenset(
    event_class.name
    for event_class in (SummaryCreatedEvent, PrunedMessagesEvent, ArchivalEvent, OverflowRecoveredEvent)
)


class ConsoleExporter:
    """Prints one line per event: time, session, event name and the most important properties."""

    def __init__(self, stream: TextIO | None = None, *, color: bool | None = None) -> None:
        self._stream = stream
        self._color = color

    def emit(self, event: dict[str, Any]) -> None:
        """Print the event."""
        stream = self._stream or sys.stderr
        # The manager redacts its events before export. Events from other callers may not be redacted.
        event, _ = default_redactor().tree(event)
        try:
            stream.write(_format(event, is_colored=self._is_colored(stream)) + "\n")
        except (OSError, ValueError):
            return

    def _is_colored(self, stream: TextIO) -> bool:
        if self._color is not None:
            return self._color
        if os.environ.get("NO_COLOR"):
            return False
        return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def _format(event: dict[str, Any], *, is_colored: bool) -> str:
    name = str(event.get("event", "event")).removeprefix("compact.")
    time_of_day = str(event.get("ts", ""))[11:23].rstrip("Z")
    prefix = f"{time_of_day:<12} {event.get('session_id', '')}  "
    text = _describe(event)
    if not is_colored:
        return f"{prefix}{name:<17} {text}".rstrip()
    color = _ANSI_COLORS[_style_of(event)]
    return f"\x1b[2m{prefix}\x1b[0m\x1b[{color}m{name:<17}\x1b[0m {text}".rstrip()


def _describe(event: Mapping[str, Any]) -> str:
    """Return the sentence of an event, or the plain properties of one that is not in the catalog."""
    properties = event.get("properties") or {}
    known = event_of(str(event.get("event", "")), properties)
    if known is not None:
        return known.line()
    return ", ".join(f"{name} {value}" for name, value in properties.items() if isinstance(value, str | int | float))


def _style_of(event: Mapping[str, Any]) -> Style:
    name = event.get("event")
    if event.get("status") == "error" or name == ErrorEvent.name:
        return "error"
    if name == WarningEvent.name:
        return "warning"
    if (event.get("properties") or {}).get("triggered"):
        return "triggered"
    return "done" if name in _RESULTS else "dim"
