"""The result of reading a log: the conversation itself, and a timeline of what the agent did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Format = Literal["chat", "responses", "anthropic"]
LogSpanKind = Literal["user", "generation", "tool", "compaction"]


@dataclass(slots=True)
class LogSpan:
    """One user message, model call, tool call or compaction in a log."""

    kind: LogSpanKind
    name: str
    started_at: str | None = None
    ended_at: str | None = None
    model: str | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    payload: Mapping[str, Any] = field(default_factory=dict)
    is_error: bool = False


@dataclass(slots=True)
class Conversation:
    """Messages in a provider's format. Session logs also have spans."""

    items: list[dict[str, Any]]
    source: str = "messages"
    session_id: str | None = None
    format: Format | None = None
    model: str | None = None
    window_tokens: int | None = None
    tools: list[Any] = field(default_factory=list)
    spans: list[LogSpan] = field(default_factory=list)

    def last_span(self, kind: LogSpanKind) -> LogSpan | None:
        """Return the latest span of a kind."""
        return next((span for span in reversed(self.spans) if span.kind == kind), None)


def text_blocks(content: Any) -> str:
    """Return the text of Anthropic or Responses content, one block per line."""
    if isinstance(content, str):
        return content
    if isinstance(content, Iterable):
        return "\n".join(
            str(block.get("text", "")) for block in content if isinstance(block, Mapping) and "text" in block
        )
    return ""
