"""Redact everything that leaves the process: messages, events and exception texts.

Redaction returns a copy and never changes the agent's own data. If redaction is disabled, the manager emits a
high-severity `compact.warning` before anything is exported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from compact.messages import Message
from compact.redaction.redactor import Redactor, default_redactor

T = TypeVar("T")

# Summary fields that hold ids and labels. All other fields quote the conversation.
_METADATA_FIELDS = frozenset({"schema", "style", "span", "sources", "source_ids", "kind", "priority", "outcome"})


@dataclass(frozen=True, slots=True)
class RedactionSettings:
    """Select the rules to apply. See `Redactor` for `patterns`, `allow` and `functions`."""

    enabled: bool = True
    pii: bool = True
    patterns: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    functions: tuple[Callable[[str], str], ...] = ()


class OutboundRedactor:
    """Redacts messages and JSON values. Pass a `Counter` to count the redactions per rule."""

    def __init__(
        self,
        settings: RedactionSettings | None = None,
        *,
        hook: Callable[[Message], Message] | None = None,
    ) -> None:
        settings = settings or RedactionSettings()
        self.enabled = settings.enabled
        self._hook = hook
        self._redactor = default_redactor() if settings == RedactionSettings() else _redactor(settings)

    @property
    def has_hook(self) -> bool:
        """True if a user-supplied hook processes every message."""
        return self._hook is not None

    def apply_message_hook(self, message: Message) -> Message:
        """Return the message as the user-supplied hook returns it, or the message itself without a hook."""
        if self._hook is None:
            return message
        hooked = self._hook(message)
        if hooked.source is not None and hooked.source is message.source and hooked != message:
            # The provider's item still has the text that the hook removed.
            hooked = replace(hooked, source=None)
        return hooked

    def apply_hook(self, value: Any) -> Any:
        """Run the user-supplied hook on all conversation text in a JSON value.

        The redaction rules are not applied here. They run when the event is exported.
        """
        if self._hook is None or value is None:
            return value
        if isinstance(value, str):
            return self._hook(Message("assistant", value)).text
        if isinstance(value, Mapping):
            return {name: item if name in _METADATA_FIELDS else self.apply_hook(item) for name, item in value.items()}
        return [self.apply_hook(item) for item in value] if isinstance(value, list) else value

    def redact_value(self, value: T, counts: Counter[str] | None = None) -> T:
        """Return a text or JSON value with secrets replaced."""
        if not self.enabled:
            return value
        clean, redactions = self._redactor.tree(value)
        if counts is not None:
            counts.update(redactions)
        return clean

    def redact_values(self, values: Sequence[T]) -> list[tuple[T, Counter[str]]]:
        """Redact adjacent messages together, so that a key may span two of them. Return each with its counts."""
        if not self.enabled:
            return [(value, Counter()) for value in values]
        return self._redactor.trees(values)


def _redactor(settings: RedactionSettings) -> Redactor:
    return Redactor(patterns=settings.patterns, allow=settings.allow, functions=settings.functions, pii=settings.pii)
