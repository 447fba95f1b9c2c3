"""Redact everything that leaves the process: messages, events and exception texts.

Redaction returns a copy and never changes the agent's own data. If redaction is disabled, the manager emits a
high-severity `compact.warning` before anything is exported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from typing import Any, TypeVar

from compact.messages import Message
from compact.redaction.findings import Replace, mask
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
        ((clean, redactions),) = self.redact_messages([message])
        if counts is not None:
            counts.update(redactions)
        return clean

    def redact_messages(
        self, messages: Sequence[Message], *, replace: Replace = mask
    ) -> list[tuple[Message, Counter[str]]]:
        """Redact adjacent messages together. Return each with its number of redactions per rule.

        A key that is split over two of the messages is found in both. A message without secrets is returned as it is.
        `replace` may return placeholders instead of masks. See `compact.redaction.Replace`.
        """
        hooked = [message if self._hook is None else self._hook(message) for message in messages]
        counts = [
            Counter({"hook": 1}) if clean is not message and clean != message else Counter[str]()
            for message, clean in zip(messages, hooked, strict=True)
        ]
        if not self.enabled:
            return list(zip(hooked, counts, strict=True))
        results = self._redactor.trees([_parts(message) for message in hooked], replace=replace)
        return [
            (_with_parts(message, parts) if redactions else message, counter + redactions)
            for message, (parts, redactions), counter in zip(hooked, results, counts, strict=True)
        ]

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


def _parts(message: Message) -> dict[str, Any]:
    return {
        "content": message.content,
        "calls": [call.arguments for call in message.tool_calls],
        "meta": message.meta,
        "name": message.name,
        "source": dict(message.source) if isinstance(message.source, Mapping) else None,
    }


def _with_parts(message: Message, parts: dict[str, Any]) -> Message:
    calls = tuple(
        replace_fields(call, arguments=arguments)
        for call, arguments in zip(message.tool_calls, parts["calls"], strict=True)
    )
    return replace_fields(
        message,
        content=parts["content"],
        tool_calls=calls,
        meta=parts["meta"],
        name=parts["name"],
        source=parts["source"],
    )


def _redactor(settings: RedactionSettings) -> Redactor:
    return Redactor(patterns=settings.patterns, allow=settings.allow, functions=settings.functions, pii=settings.pii)
