"""A passage that a recall returns, and its form for a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from compact.exceptions import CompactError


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a message that matches a query, with lines of the messages next to it. Its text is redacted."""

    message_id: str
    role: str
    turn: int
    """The user turn that the message belongs to, counted from 1."""
    time: str | None
    """The time at which the message was first seen, in ISO 8601. None if it is not known."""
    text: str
    """Whole lines or sentences. Those of another message follow its role and id, and `…` marks what was left out."""
    score: float
    is_in_prompt: bool = False
    """True if the prompt still contains the message and its neighbors."""
    neighbor_ids: tuple[str, ...] = ()
    """The other messages that the text has lines of."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_limits(limit: int, max_tokens: int) -> None:
    """Raise an error if a recall could return nothing."""
    if not all(isinstance(value, int) and value > 0 for value in (limit, max_tokens)):
        raise CompactError(f"limit and max_tokens must be positive whole numbers, not {limit!r} and {max_tokens!r}.")


def render_passages(passages: Sequence[Passage]) -> str:
    """Return passages as the text of a tool result, best first."""
    if not passages:
        return "Nothing in this conversation matches. Try other words: a name, a path, an id or an error message."
    return "\n\n".join(f"{_heading(passage)}\n{passage.text}" for passage in passages)


def _heading(passage: Passage) -> str:
    time = f", {passage.time}" if passage.time else ""
    return f"[turn {passage.turn}, {passage.role}, message {passage.message_id}{time}]"
