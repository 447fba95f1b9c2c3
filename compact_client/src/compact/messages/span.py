"""A span of the log, identified by the ids of its messages.

A span lists every id, so that a plan can be read without the log and stays valid when the log grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SpanReference:
    """Ids of messages in log order, and the turns that they cover."""

    message_ids: tuple[str, ...]
    first_turn: int = 0
    last_turn: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.message_ids, tuple):
            object.__setattr__(self, "message_ids", tuple(self.message_ids))
        if not self.message_ids:
            raise ValueError("A span needs at least one message id.")

    @property
    def message_count(self) -> int:
        return len(self.message_ids)

    @property
    def start_message_id(self) -> str:
        return self.message_ids[0]

    @property
    def end_message_id(self) -> str:
        return self.message_ids[-1]

    def contains(self, message_id: str) -> bool:
        return message_id in self.message_ids

    def to_dict(self) -> dict[str, Any]:
        return {"message_ids": list(self.message_ids), "first_turn": self.first_turn, "last_turn": self.last_turn}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SpanReference:
        return cls(tuple(data["message_ids"]), int(data.get("first_turn", 0)), int(data.get("last_turn", 0)))
