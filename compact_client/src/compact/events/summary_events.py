"""Events of a summary: its creation, the facts it kept or lost, and that it was not used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, get_args

from compact.events.base import OPTIONAL, PRIVATE_TEXT, Event
from compact.events.check_events import Evidence
from compact.events.phrases import format_count, format_facts, format_number, format_percent, join_parts
from compact.messages.redacted_types import RedactedText, RedactedTree

__all__ = [
    "FACT_KINDS",
    "FactKind",
    "RetentionEvent",
    "SummaryCreatedEvent",
    "SummaryDiscardedEvent",
]


FactKind = Literal["goal", "constraint", "decision", "open_item", "file", "id", "number", "path"]
FACT_KINDS: Final[tuple[FactKind, ...]] = get_args(FactKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionEvent(Event):
    """Facts of the removed messages that the prompt still contains, found by rules and without a model."""

    name: ClassVar[str] = "compact.retention"

    step: int
    facts_total: int
    facts_kept: int
    goals_total: int
    goals_kept: int
    decisions_total: int
    decisions_kept: int
    open_items_total: int
    open_items_kept: int
    files_total: int
    files_kept: int
    weighted_retention: float
    by_kind: Mapping[str, Mapping[str, int]]
    evidence: Evidence | None = field(default=None, metadata=OPTIONAL)
    lost: Sequence[RedactedTree] = field(metadata=PRIVATE_TEXT)
    restored: Sequence[RedactedTree] = field(metadata=PRIVATE_TEXT)

    def line(self) -> str:
        if self.facts_total is not None and self.facts_kept is not None:
            return format_facts(self.facts_total, self.facts_kept)
        share = self.weighted_retention
        return "" if share is None else f"Weighted retention {format_percent(share)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryCreatedEvent(Event):
    """A summary was written. The span's duration is that of the summarizer."""

    name: ClassVar[str] = "compact.summary_created"

    strategy: str
    version: int
    step: int
    input_messages: int
    input_tokens: int
    summary_tokens: int
    compression_ratio: float
    latency_ms: float
    summarizer: str
    model: str | None
    evidence: Evidence | None = field(default=None, metadata=OPTIONAL)
    summary: RedactedText | None = field(metadata=PRIVATE_TEXT)
    structured: RedactedTree | None = field(metadata=PRIVATE_TEXT)

    def line(self) -> str:
        messages = format_count(self.input_messages or 0, "message")
        # The ledger counts the previous summary as one more message.
        previous = " and the previous summary" if (self.version or 0) > 1 else ""
        return f"{messages}{previous} summarized in {format_number(self.summary_tokens)} tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryDiscardedEvent(Event):
    """A summary was written, but the prompt does not contain it. The span's duration is that of the summarizer."""

    name: ClassVar[str] = "compact.summary_discarded"

    strategy: str
    reason: str
    input_messages: int
    input_tokens: int
    summary_tokens: int
    latency_ms: float
    summarizer: str
    model: str | None

    def line(self) -> str:
        return join_parts(f"A summary of {format_count(self.summary_tokens or 0, 'token')} was not used", self.reason)
