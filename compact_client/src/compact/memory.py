"""What a session remembers now: the answer to "what do you still know?".

A plain picture of the last request, for people and for the `remember` command.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compact.messages import Message
from compact.planning.plan import CompactionPlan
from compact.summary.structured_summary import StructuredSummary


@dataclass(frozen=True, slots=True)
class Memory:
    """Pinned messages, the current summary, and the recent window."""

    session_id: str
    summary: str | None
    structured: StructuredSummary | None
    pinned: tuple[Message, ...]
    recent: tuple[Message, ...]
    tokens: int
    plan: CompactionPlan | None

    def to_dict(self) -> dict[str, Any]:
        return {
            "session_id": self.session_id,
            "summary": self.summary,
            "structured": self.structured.to_dict() if self.structured else None,
            "pinned": [message.to_dict() for message in self.pinned],
            "recent": [message.to_dict() for message in self.recent],
            "tokens": self.tokens,
            "plan_version": self.plan.version if self.plan else 0,
        }

    def __str__(self) -> str:
        lines = [f"What I remember now ({self.tokens:,} tokens)", "", f"Pinned ({len(self.pinned)}):"]
        lines += [f"  [{message.role}] {_brief(message)}" for message in self.pinned]
        lines += ["", "Summary:", *(f"  {line}" for line in (self.summary or "none yet").splitlines())]
        lines += ["", f"Recent ({len(self.recent)}):"]
        lines += [f"  [{message.role}] {_brief(message)}" for message in self.recent]
        return "\n".join(lines)


def _brief(message: Message) -> str:
    text = " ".join(message.text.split()) or ", ".join(f"{call.name}(…)" for call in message.tool_calls)
    return text if len(text) <= 100 else text[:99] + "…"
