"""A snapshot of what a session remembers, for people and for the `remember` command."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from compact.messages import Message
from compact.messages.units import group_units
from compact.planning.partition import pin_rules
from compact.planning.plan import CompactionPlan
from compact.policy import CompactPolicy
from compact.summary.structured_summary import StructuredSummary

_MAX_LINE_CHARS = 100


@dataclass(frozen=True, slots=True)
class Memory:
    """The current summary, the pinned messages and the recent window of a session."""

    session_id: str
    summary: str | None
    structured: StructuredSummary | None
    pinned: tuple[Message, ...]
    recent: tuple[Message, ...]
    tokens: int
    plan: CompactionPlan | None

    @classmethod
    def from_request(
        cls,
        session_id: str,
        messages: Sequence[Message],
        *,
        plan: CompactionPlan | None,
        tokens: int,
        policy: CompactPolicy,
        protected_ids: Collection[str],
    ) -> Memory:
        """Sort the messages of a request into pinned and recent ones."""
        pinned: list[Message] = []
        recent: list[Message] = []
        units = group_units(messages)
        pins = pin_rules(units, messages, policy, protected_ids)
        for unit in units:
            (pinned if unit.first in pins else recent).extend(messages[index] for index in unit.indices)
        return cls(
            session_id,
            plan.summary_text if plan else None,
            plan.session_summary if plan else None,
            tuple(pinned),
            tuple(message for message in recent if not message.is_summary),
            tokens,
            plan,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the snapshot as JSON."""
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
        lines += [f"  [{message.role}] {_one_line(message)}" for message in self.pinned]
        lines += ["", "Summary:", *(f"  {line}" for line in (self.summary or "none yet").splitlines())]
        lines += ["", f"Recent ({len(self.recent)}):"]
        lines += [f"  [{message.role}] {_one_line(message)}" for message in self.recent]
        return "\n".join(lines)


def _one_line(message: Message) -> str:
    text = " ".join(message.text.split()) or ", ".join(f"{call.name}(…)" for call in message.tool_calls)
    return text if len(text) <= _MAX_LINE_CHARS else text[: _MAX_LINE_CHARS - 1] + "…"
