"""Events of rehydration: externalized content that returns to the prompt for one call, or is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypedDict

from compact.events.base import Event
from compact.events.phrases import detail, format_number, join_parts

__all__ = [
    "BlockedDetails",
    "RehydratedDetails",
    "RehydratedEvent",
    "RehydrationBlockedEvent",
]


class RehydratedDetails(TypedDict):
    """The artifact that was shown, and whether it was truncated."""

    artifact_id: str
    truncated: bool


class BlockedDetails(TypedDict):
    """The artifact that was not shown, and the reason."""

    artifact_id: str
    reason: str
    sensitivity: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RehydratedEvent(Event):
    """Externalized content is in the prompt again, for this call only."""

    name: ClassVar[str] = "compact.rehydrated"

    strategy: str
    details: RehydratedDetails
    tokens: int

    def line(self) -> str:
        suffix = " (truncated)" if detail(self.details, "truncated") is True else ""
        return f"{detail(self.details, 'artifact_id') or 'Content'}: {format_number(self.tokens)} tokens{suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RehydrationBlockedEvent(Event):
    """Externalized content was requested but not shown."""

    name: ClassVar[str] = "compact.rehydration_blocked"

    strategy: str
    details: BlockedDetails

    def line(self) -> str:
        return join_parts(str(detail(self.details, "artifact_id") or "Content"), detail(self.details, "reason"))
