"""Events of recall: the agent searched in what its session has contained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from compact.events.base import PRIVATE_TEXT, Event
from compact.events.phrases import format_count
from compact.messages.redacted_types import RedactedText, RedactedTree

__all__ = [
    "RecallEvent",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallEvent(Event):
    """The agent looked something up in its own past. Passages outside the prompt are what a compaction took away."""

    name: ClassVar[str] = "compact.recall"

    turn: int
    limit: int
    max_tokens: int
    passage_count: int = 0
    outside_prompt_count: int = 0
    tokens: int = 0
    query: RedactedText | None = field(default=None, metadata=PRIVATE_TEXT)
    results: Sequence[RedactedTree] = field(default=(), metadata=PRIVATE_TEXT)

    def line(self) -> str:
        if not self.passage_count:
            return "Nothing found"
        passages = format_count(self.passage_count, "passage")
        return f"{passages} found, {self.outside_prompt_count or 0:,} outside the prompt"
