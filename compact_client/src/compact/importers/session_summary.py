"""The description of a session in a list: its first request, its folder, and how much happened in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from compact.importers.conversation import Conversation
from compact.importers.uncompaction import log_messages, main_compactions
from compact.ledgers.foreign_compaction import MAIN
from compact.messages.codecs import get_codec
from compact.messages.codecs.quarantine import decode_item
from compact.recall.sections import searchable_text
from compact.redaction import default_redactor
from compact.redaction.view import mask_conversation

_MAX_TITLE_CHARS: Final = 80


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """The redacted description of a session, from which a reader can choose."""

    title: str
    directory: str
    calls: int
    compactions: int

    def __str__(self) -> str:
        counts = [_count(self.calls, "call"), _count(self.compactions, "compaction")]
        parts = [f'"{self.title}"' if self.title else "", self.directory, *counts]
        return ", ".join(part for part in parts if part)


def summarize_session(conversation: Conversation) -> SessionSummary:
    """Return the description of a session. Sub-agents do not count."""
    directory, _ = default_redactor().text(conversation.cwd or "")
    calls = [span for span in conversation.spans if span.kind == "generation" and span.thread == MAIN]
    return SessionSummary(_title(conversation), directory, len(calls), len(main_compactions(conversation)))


def _title(conversation: Conversation) -> str:
    """Return the start of what the user asked first, redacted before it is shortened."""
    codec = get_codec(conversation.format or "chat")
    for index, message in enumerate(log_messages(conversation)):
        decoded = decode_item(codec, message.item, index)
        if decoded.role == "user" and not decoded.answers and not message.is_program:
            (masked,) = mask_conversation([decoded])
            text = " ".join(searchable_text(masked).split())
            if text:
                return text if len(text) <= _MAX_TITLE_CHARS else f"{text[:_MAX_TITLE_CHARS]}…"
    return ""


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
