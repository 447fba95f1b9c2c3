"""Print events as readable lines, with color on a terminal.

Lines go to stderr, so that the agent's own output can still be piped. NO_COLOR and FORCE_COLOR are honored.
"""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO

from compact.exporters.console_lines import describe, style_of
from compact.redaction import default_redactor

_ANSI_COLORS = {"error": "31", "warning": "33", "triggered": "35", "done": "32", "dim": "2"}


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
    text = describe(event)
    if not is_colored:
        return f"{prefix}{name:<17} {text}".rstrip()
    color = _ANSI_COLORS[style_of(event)]
    return f"\x1b[2m{prefix}\x1b[0m\x1b[{color}m{name:<17}\x1b[0m {text}".rstrip()
