"""Events as lines for a person to read, with colour on a terminal.

Goes to stderr, so that an agent's own output can still be piped. Honours NO_COLOR and FORCE_COLOR.
"""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO

from compact.redaction import default_redactor

_STYLES = {"error": "31", "warning": "33", "triggered": "35", "done": "32", "quiet": "2"}


class ConsoleExporter:
    """One line an event: time, session, name, and what matters of its properties."""

    def __init__(self, stream: TextIO | None = None, *, color: bool | None = None) -> None:
        self._stream = stream
        self._color = color

    def emit(self, event: dict[str, Any]) -> None:
        stream = self._stream or sys.stderr
        # Events are redacted before they get here; a caller's own may not be.
        event, _ = default_redactor().tree(event)
        try:
            stream.write(self._line(event, is_colored=self._is_colored(stream)) + "\n")
        except (OSError, ValueError):
            return

    def _is_colored(self, stream: TextIO) -> bool:
        if self._color is not None:
            return self._color
        if os.environ.get("NO_COLOR"):
            return False
        return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()

    def _line(self, event: dict[str, Any], *, is_colored: bool) -> str:
        name = str(event.get("event", "event"))
        properties = event.get("properties") or {}
        text = f"{describe(name, properties)}"
        style = _style(name, event, properties)
        clock = str(event.get("ts", ""))[11:23].rstrip("Z")
        head = f"{clock:<12} {event.get('session_id', '')}  "
        short = name.removeprefix("compact.")
        if not is_colored:
            return f"{head}{short:<17} {text}".rstrip()
        return f"\x1b[2m{head}\x1b[0m\x1b[{_STYLES[style]}m{short:<17}\x1b[0m {text}".rstrip()


def _style(name: str, event: dict[str, Any], properties: dict[str, Any]) -> str:
    if event.get("status") == "error" or name == "compact.error":
        return "error"
    if name == "compact.warning":
        return "warning"
    if properties.get("triggered"):
        return "triggered"
    if name in ("compact.summary_created", "compact.pruned_messages", "compact.archival", "compact.overflow_recovered"):
        return "done"
    return "quiet"


def describe(name: str, properties: dict[str, Any]) -> str:
    """What an event says, in a few words."""
    get = properties.get
    match name:
        case "compact.token_estimate":
            return f"{_n(get('t_est'))} of {_n(get('max_tokens'))} tokens ({_pct(get('usage_pct'))})"
        case "compact.trigger_decision":
            kept = get("kept") or {}
            tail = f"; prune {get('pruned_count')}, keep {_pairs(kept)}" if get("triggered") and kept else ""
            return f"{'compact' if get('triggered') else 'no'}: {get('reason', '')}{tail}"
        case "compact.summary_created":
            ratio = get("compression_ratio")
            times = f", {ratio:.1f} to 1" if isinstance(ratio, (int, float)) else ""
            made = f"{_n(get('input_messages'))} messages into {_n(get('summary_tokens'))} tokens{times}"
            return f"{get('strategy')}: {made}"
        case "compact.pruned_messages":
            return (
                f"{_n(get('pruned_count'))} messages pruned, {_n(get('tokens_before'))} → "
                f"{_n(get('tokens_after'))} tokens; {_pairs(get('layers') or {})}"
            )
        case "compact.archival":
            return f"{get('storage_adapter')}: {get('path') or get('key') or get('id')}"
        case "compact.error":
            return f"{get('error_type')}: {get('message')} (then: {get('fallback')})"
        case "compact.warning":
            return f"{get('severity')}: {get('message')}"
        case "compact.check":
            return f"turn {get('turn')}: {_n(get('tokens_before'))} → {_n(get('tokens_after'))} tokens"
    return _pairs({key: value for key, value in properties.items() if isinstance(value, (str, int, float, bool))})


def _n(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else "?" if value is None else str(value)


def _pct(value: Any) -> str:
    return f"{value:.1%}" if isinstance(value, (int, float)) else "?"


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{key} {_n(value)}" for key, value in values.items())
