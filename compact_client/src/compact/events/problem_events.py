"""Events of problems: errors that changed the outcome, and warnings that did not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, TypedDict

from compact.events.base import FREE_TEXT, OPTIONAL, Event
from compact.events.phrases import format_number, join_parts

__all__ = [
    "PRUNING_ONLY",
    "RAISED",
    "RETRIED_AS_BRIEF",
    "ErrorEvent",
    "MessageDetails",
    "NormalizationDetails",
    "OverBudgetEvent",
    "Severity",
    "WarningCode",
    "WarningEvent",
]

PRUNING_ONLY: Final = "pruning-only"
RETRIED_AS_BRIEF: Final = "retry as brief"
RAISED: Final = "none: raised to the caller"
"""The `fallback` of an error that nothing was done about."""
Severity = Literal["low", "medium", "high"]
WarningCode = Literal[
    "redaction_disabled",
    "constraint_lost",
    "irreplaceable_compacted",
    "archive_failed",
    "events_dropped",
    "normalized",
    "session_reset",
    "session_evicted",
    "session_unidentified",
    "prompt_reduced",
    "server_managed",
    "two_compactions",
    "malformed_message",
    "source_unverified",
    "artifact_corrupt",
    "compaction_skipped",
]


class MessageDetails(TypedDict):
    """The messages that a warning is about."""

    message_ids: Sequence[str]


class NormalizationDetails(TypedDict):
    """Ids of the tool outputs that were added, removed or moved to their call."""

    added: Sequence[str]
    removed: Sequence[str]
    moved: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorEvent(Event):
    """Something failed. `fallback` says what was done instead."""

    name: ClassVar[str] = "compact.error"
    is_error: ClassVar[bool] = True

    error_type: str
    message: str = field(metadata=FREE_TEXT)
    fallback: str
    attempt: int | None = field(default=None, metadata=OPTIONAL)
    style: str | None = field(default=None, metadata=OPTIONAL)
    summarizer: str | None = field(default=None, metadata=OPTIONAL)

    @classmethod
    def from_exception(
        cls,
        error: Exception,
        fallback: str,
        *,
        attempt: int | None = None,
        style: str | None = None,
        summarizer: str | None = None,
    ) -> ErrorEvent:
        """Describe an exception and what was done instead of the failed operation."""
        return cls(
            error_type=type(error).__name__,
            message=str(error),
            fallback=fallback,
            attempt=attempt,
            style=style,
            summarizer=summarizer,
        )

    def line(self) -> str:
        text = join_parts(self.error_type, self.message)
        return f"{text or 'Error'} (fallback: {self.fallback})" if self.fallback else text


@dataclass(frozen=True, slots=True, kw_only=True)
class OverBudgetEvent(Event):
    """The request is larger than the budget, and nothing more could be removed from it."""

    name: ClassVar[str] = "compact.over_budget"
    is_error: ClassVar[bool] = True

    tokens: int
    budget_tokens: int
    max_tokens: int
    excess_tokens: int
    reason: str

    def line(self) -> str:
        excess = f"{format_number(self.excess_tokens)} over the budget of {format_number(self.budget_tokens)}"
        return join_parts(f"{format_number(self.tokens)} tokens, {excess}", self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningEvent(Event):
    """Something that a person should look at. The call went on as planned."""

    name: ClassVar[str] = "compact.warning"

    severity: Severity
    code: WarningCode
    message: str = field(metadata=FREE_TEXT)
    details: MessageDetails | NormalizationDetails | None = field(default=None, metadata=OPTIONAL)
    count: int | None = field(default=None, metadata=OPTIONAL)

    def line(self) -> str:
        return join_parts(self.code, self.message)
