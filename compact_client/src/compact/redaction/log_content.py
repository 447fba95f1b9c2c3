"""Redact the conversation text of a log once, when it is read.

Everything that is derived from the log afterwards, such as events, ledgers and transcripts, is built from clean text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compact.messages import Message, RedactedMessage
from compact.messages.seal import seal_message, seal_text, seal_tree
from compact.redaction.labels import redact_items
from compact.redaction.outbound import OutboundRedactor

# Ledgers are built from redacted messages, so their texts and facts are clean, too.
__all__ = ["LogRedactor", "seal_messages", "seal_text", "seal_tree"]
_MAX_CACHED_LABELS = 10_000
# The parts of an event beside its payload that come from a log.
_LABEL_KEYS = ("name", "properties", "data", "metadata")


class LogRedactor:
    """Redacts the contents of one log in order, many at a time. A secret that spans two of them is found in both."""

    def __init__(self) -> None:
        self._redactor = OutboundRedactor()
        self._last: dict[str, Any] | None = None
        self._labels: dict[str, str] = {}

    def redact(self, contents: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the contents without secrets. Those that have none are returned as they are."""
        if not contents:
            return []
        # A secret may have started in the last content of the earlier call.
        known = [self._last] if self._last is not None else []
        self._last = contents[-1]
        results = redact_items([*known, *contents], self._redactor.redact_values)
        return [clean for clean, _ in results[len(known) :]]

    def has_secret_label(self, value: Any) -> bool:
        """Return True if a short text in a JSON value, such as a model or a tool's name, has a secret."""
        if isinstance(value, str):
            return self._label(value) != value
        if isinstance(value, dict):
            value = value.values()
        elif not isinstance(value, (list, tuple)):
            return False
        # Most values are numbers, in the parts of a prompt.
        return any(not isinstance(item, (int, float)) and self.has_secret_label(item) for item in value)

    def clean_labels(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return an event with clean names and metadata. Its payload must have been built from redacted content."""
        labels = {key: event[key] for key in _LABEL_KEYS if key in event}
        return {**event, **self.redact_value(labels)} if self.has_secret_label(labels) else event

    def redact_value(self, value: Any) -> Any:
        """Return one JSON value without secrets."""
        return self._redactor.redact_value(value)

    def _label(self, text: str) -> str:
        clean = self._labels.get(text)
        if clean is None:
            if len(self._labels) >= _MAX_CACHED_LABELS:
                self._labels.clear()
            clean = self._labels[text] = self._redactor.redact_value(text)
        return clean


def seal_messages(messages: Sequence[Message]) -> list[RedactedMessage]:
    """Return messages that were read from redacted content as redacted messages."""
    return [seal_message(message) for message in messages]
