"""Messages as the pages show them: the parts that `compact.reading` reads, with previews and shortened texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from compact.reading.parts import Content, Part, read_parts, role_of, shorten

PREVIEW_CHARS = 90


@dataclass(frozen=True, slots=True)
class ChatMessage:
    role: str
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """All text of the message, as a person would quote it."""
        return "\n".join(part.signature if part.kind is Content.CALL else part.text for part in self.parts)

    def truncate(self, length: int) -> tuple[ChatMessage, bool]:
        """Return the message with at most `length` characters per part, and whether something is missing."""
        if all(len(part.text) <= length for part in self.parts):
            return self, False
        parts = tuple(
            replace(part, text=part.text[:length], arguments=()) if len(part.text) > length else part
            for part in self.parts
        )
        return replace(self, parts=parts), True

    @property
    def preview(self) -> str:
        """The first words of the message in one line. Tool calls come first, because they are what happened."""
        calls = [part.signature for part in self.parts if part.kind is Content.CALL]
        words = [_preview(part) for part in self.parts if part.kind is not Content.CALL]
        return shorten(" ".join(filter(None, [*calls, *words])), PREVIEW_CHARS)


def parse_message(message: Any) -> ChatMessage:
    """Read a stored message of any format."""
    role = role_of(message) if isinstance(message, Mapping) else ""
    return ChatMessage(role, tuple(part for part in read_parts(message) if part.text or part.name))


def _preview(part: Part) -> str:
    # The rest of a long text is not in the preview.
    text = part.text[: PREVIEW_CHARS * 4]
    return f"Reasoning: {text}" if part.kind is Content.REASONING else text
