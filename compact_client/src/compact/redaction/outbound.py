"""Redact everything that leaves the process: messages, events and exception texts.

Redaction returns a copy and never changes the agent's own data. If redaction is disabled, the manager emits a
high-severity `compact.warning` before anything is exported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
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

    def redact_message(self, message: Message, counts: Counter[str] | None = None) -> Message:
        """Return the message as it may be exported or archived, or the same object if nothing needs redaction."""
        if self._hook is not None:
            hooked = self._hook(message)
            if counts is not None and hooked != message:
                counts["hook"] += 1
            message = hooked
        if not self.enabled:
            return message
        parts = {
            "content": message.content,
            "calls": [call.arguments for call in message.tool_calls],
            "meta": message.meta,
            "name": message.name,
            "source": dict(message.source) if isinstance(message.source, Mapping) else None,
        }
        clean = self.redact_value(parts, counts)
        if clean is parts or clean == parts:
            return message
        calls = tuple(
            replace(call, arguments=arguments)
            for call, arguments in zip(message.tool_calls, clean["calls"], strict=True)
        )
        return replace(
            message,
            content=clean["content"],
            tool_calls=calls,
            meta=clean["meta"],
            name=clean["name"],
            source=clean["source"],
        )

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


def _redactor(settings: RedactionSettings) -> Redactor:
    return Redactor(patterns=settings.patterns, allow=settings.allow, functions=settings.functions, pii=settings.pii)
