"""Redact events at the edge of the process, in one place."""

from __future__ import annotations

from typing import Any

from compact.events import event_named
from compact.protocols import Exporter
from compact.redaction.outbound import OutboundRedactor

# The parts of an event or span that may contain text from the host. The others are ids, times and names of ours.
_CONTENT_KEYS = ("name", "properties", "data", "metadata", "payload")


class RedactingExporter:
    """Wraps an exporter so that it only receives redacted copies of events.

    The caller's own redaction function sees the payload fields that the event catalog marks as conversation text. The
    rules are then applied to everything else too.
    """

    def __init__(self, exporter: Exporter, redactor: OutboundRedactor) -> None:
        self._exporter = exporter
        self._redactor = redactor

    def emit(self, event: dict[str, Any]) -> None:
        """Redact an event and pass it on."""
        content = {key: event[key] for key in _CONTENT_KEYS if key in event}
        if self._redactor.has_hook and "payload" in content:
            content["payload"] = self._apply_hook(str(event.get("event")), content["payload"])
        self._exporter.emit({**event, **self._redactor.redact_value(content)})

    def _apply_hook(self, name: str, payload: dict[str, Any]) -> dict[str, Any]:
        kind = event_named(name)
        texts = kind.text_fields() if kind else ()
        return {key: self._redactor.apply_hook(value) if key in texts else value for key, value in payload.items()}
