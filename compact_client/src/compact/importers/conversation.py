"""The result of reading a conversation: its messages, and for session logs a timeline and the compactions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from compact.ledgers.foreign_compaction import Compaction, Format, LogMessage
from compact.recording import RecordedSpan, SessionLink


@dataclass(slots=True)
class Conversation:
    """Messages in a provider's format. Session logs also have spans and compactions."""

    items: list[dict[str, Any]]
    source: str = "messages"
    session_id: str | None = None
    format: Format | None = None
    model: str | None = None
    window_tokens: int | None = None
    tools: list[Any] = field(default_factory=list)
    spans: list[RecordedSpan] = field(default_factory=list)
    compactions: list[Compaction] = field(default_factory=list)
    context: list[LogMessage] = field(default_factory=list)
    """The messages that are in the agent's prompt at the end of the log."""
    cwd: str | None = None
    version: str | None = None
    link: SessionLink | None = None
