"""Everything that leaves the process passes here: messages, events, texts of exceptions.

What comes out is a redacted copy; what the agent holds stays as it is. With redaction switched off nothing is
hidden, and the manager says so in a high-severity `compact.warning` before anything is exported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from compact.messages import Message
from compact.redaction.redactor import Redactor, default_redactor

T = TypeVar("T")

# Fields of a summary that name and number; the others quote.
_NO_WORDS = frozenset({"schema", "style", "span", "sources", "source_ids", "kind", "priority", "outcome"})


@dataclass(frozen=True, slots=True)
class RedactionSettings:
    """Which rules apply; see `Redactor` for `patterns`, `allow` and `functions`."""

    enabled: bool = True
    pii: bool = True
    patterns: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    functions: tuple[Callable[[str], str], ...] = ()


class Outbound:
    """Redacts one message or value at a time; pass a Counter to learn how often each rule was used."""

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
        """Whether the caller's own function sees every message."""
        return self._hook is not None

    def message(self, message: Message, counts: Counter[str] | None = None) -> Message:
        """The message as it may be exported or archived; the same object where nothing had to be hidden."""
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
        clean = self.value(parts, counts)
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

    def words(self, value: Any) -> Any:
        """Texts that were taken from messages, through the caller's own function; rules follow when they leave."""
        if self._hook is None or value is None:
            return value
        if isinstance(value, str):
            return self._hook(Message("assistant", value)).text
        if isinstance(value, Mapping):
            return {name: item if name in _NO_WORDS else self.words(item) for name, item in value.items()}
        return [self.words(item) for item in value] if isinstance(value, list) else value

    def value(self, value: T, counts: Counter[str] | None = None) -> T:
        """Any JSON value, redacted."""
        if not self.enabled:
            return value
        clean, found = self._redactor.tree(value)
        if counts is not None:
            counts.update(found)
        return clean

    def text(self, text: str, counts: Counter[str] | None = None) -> str:
        """A text, such as that of an exception, redacted."""
        return self.value(text, counts)


def _redactor(settings: RedactionSettings) -> Redactor:
    return Redactor(patterns=settings.patterns, allow=settings.allow, functions=settings.functions, pii=settings.pii)
