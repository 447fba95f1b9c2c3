"""Events of one compaction: its start, each strategy's proposals and records, and the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, TypedDict

from compact.events.base import FREE_TEXT, OPTIONAL, PRIVATE, PRIVATE_TEXT, SENTENCE, Event
from compact.events.check_events import Evidence
from compact.events.phrases import (
    describe_removal,
    detail,
    format_count,
    format_number,
    format_reduction,
    is_count,
    join_parts,
)
from compact.messages.span import SpanReference

__all__ = [
    "REMAINING_FATES",
    "ArchivalEvent",
    "ArchivalState",
    "ArtifactDetails",
    "BreakerOpenEvent",
    "CheckStartedEvent",
    "ClearedEvent",
    "CompletedDetails",
    "CompletedEvent",
    "DroppedEvent",
    "ExternalizedEvent",
    "LayerCounts",
    "OverflowRecoveredEvent",
    "PolicyAppliedEvent",
    "PromptEntry",
    "ProposalGeneratedEvent",
    "ProviderCompactionEvent",
    "PrunedMessagesEvent",
    "ReasonDetails",
    "RecordEvent",
    "SpanProperties",
    "SummarizedEvent",
    "TruncatedEvent",
    "span_properties",
]

ArchivalState = Literal["queued", "stored", "failed"]
REMAINING_FATES = frozenset({"pinned", "kept", "truncated"})
"""Fates of messages that are still in the prompt. The others are summarized, cleared, externalized and dropped."""
_RECEIPT_KEYS = ("state", "step", "path", "key", "id", "sha256", "error")


class SpanProperties(TypedDict):
    """A span of messages: its turns, its size and its first and last message."""

    first_turn: int
    last_turn: int
    message_count: int
    start_message_id: str
    end_message_id: str


class ReasonDetails(TypedDict):
    """Details that consist of one sentence."""

    reason: Annotated[str, SENTENCE]


class ArtifactDetails(TypedDict, total=False):
    """The artifact that holds externalized content. Empty for the other strategies."""

    artifact_id: str


class CompletedDetails(TypedDict):
    """True under `changed` if a new plan was committed."""

    changed: bool


class LayerCounts(TypedDict):
    """Number of messages in each layer of the new prompt."""

    pinned: int
    summary: int
    recent: int


class PromptEntry(TypedDict):
    """One message of the new prompt."""

    id: str | None
    hash: str
    role: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckStartedEvent(Event):
    """A compaction starts."""

    name: ClassVar[str] = "compact.check_started"

    tokens_before: int
    budget_limit: int | None

    def line(self) -> str:
        budget = "" if self.budget_limit is None else f", the budget is {self.budget_limit:,}"
        return f"A compaction of {format_number(self.tokens_before)} tokens started{budget}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyAppliedEvent(Event):
    """The policy in effect, and the limits it gives this compaction."""

    name: ClassVar[str] = "compact.policy_applied"

    policy: Mapping[str, Any]
    reductions: Sequence[str] = field(metadata=SENTENCE)
    summary_tokens: int
    target_tokens: int
    headroom_calls: int
    growth_tokens: float

    def line(self) -> str:
        limits = (
            f"Target {format_number(self.target_tokens)} tokens, summary up to {format_number(self.summary_tokens)}"
        )
        return f"{limits}, reduced: {', '.join(map(str, self.reductions))}" if self.reductions else limits


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivalEvent(Event):
    """The transcript from before a compaction was archived, is waiting to be, or could not be.

    `state` is `stored` only after the archive has confirmed it. `queued` means that the transcript is on the local disk
    and a second event follows. `step` is the number under which the archive has it.
    """

    name: ClassVar[str] = "compact.archival"

    session_id: str
    state: ArchivalState
    step: int
    storage_adapter: str
    message_count: int | None
    redactions: Mapping[str, int]
    path: str | None = field(default=None, metadata=OPTIONAL)
    key: str | None = field(default=None, metadata=OPTIONAL)
    id: str | int | None = field(default=None, metadata=OPTIONAL)
    sha256: str | None = field(default=None, metadata=OPTIONAL)
    file_path: str | None = field(default=None, metadata=OPTIONAL)
    S3_key: str | None = field(default=None, metadata=OPTIONAL)
    error: str | None = field(default=None, metadata={**OPTIONAL, **FREE_TEXT})
    evidence: Evidence | None = field(default=None, metadata=OPTIONAL)

    def add_receipt(self, receipt: Any) -> ArchivalEvent:
        """Return the event with what the archive has answered.

        A path and an S3 key also get the names that document 002 uses.
        """
        if not isinstance(receipt, Mapping):
            receipt = {"path": str(receipt)} if receipt is not None else {}
        answer = {key: receipt[key] for key in _RECEIPT_KEYS if key in receipt}
        if "path" in answer:
            answer["file_path"] = answer["path"]
        if str(answer.get("key", "")).startswith("s3://"):
            answer["S3_key"] = answer["key"]
        return replace(self, **answer)

    def line(self) -> str:
        state = self.state or "stored"
        preposition = "in" if state == "stored" else "for"
        adapter = f" {preposition} {self.storage_adapter}" if self.storage_adapter else ""
        return join_parts(f"Transcript {state}{adapter}", self.error or self.path or self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalGeneratedEvent(Event):
    """A strategy of the ladder proposes to compact a span."""

    name: ClassVar[str] = "compact.proposal_generated"

    strategy: str
    span: SpanProperties
    tokens_freed: int
    details: ReasonDetails

    def line(self) -> str:
        return join_parts(
            f"{self.strategy or 'A strategy'} would free {format_number(self.tokens_freed)} tokens",
            detail(self.details, "reason"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordEvent(Event):
    """A strategy compacted a span. Base of the four events below."""

    strategy: str
    span: SpanProperties
    tokens_freed: int
    details: ArtifactDetails

    def line(self) -> str:
        count = detail(self.span, "message_count")
        messages = f" from {format_count(count, 'message')}" if is_count(count) else ""
        return f"{format_number(self.tokens_freed)} tokens freed{messages}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalizedEvent(RecordEvent):
    """A span was moved to the artifact store. A pointer replaces it."""

    name: ClassVar[str] = "compact.externalized"


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizedEvent(RecordEvent):
    """A span was replaced with a summary."""

    name: ClassVar[str] = "compact.summarized"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearedEvent(RecordEvent):
    """A tool output was cleared and its call was kept."""

    name: ClassVar[str] = "compact.cleared"


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedEvent(RecordEvent):
    """A span was removed. Only an index entry in the plan remains."""

    name: ClassVar[str] = "compact.dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedEvent(Event):
    """The middle of a long message was removed from the prompt. The log has the full text."""

    name: ClassVar[str] = "compact.truncated"

    message_id: str
    tokens_before: int
    tokens_after: int
    tokens_freed: int
    reason: str
    artifact_id: str | None = field(default=None, metadata=OPTIONAL)

    def line(self) -> str:
        return join_parts(format_reduction(self.tokens_before, self.tokens_after), self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedMessagesEvent(Event):
    """The result of a compaction, with the fate of every message."""

    name: ClassVar[str] = "compact.pruned_messages"

    step: int
    layers: LayerCounts
    pruned_count: int
    tokens_before: int
    tokens_after: int | None
    breakdown_after: Mapping[str, int] | None
    plan_version: int
    cache: Mapping[str, Any] | None
    fates: Mapping[str, int]
    inferred: bool | None = field(default=None, metadata=OPTIONAL)
    evidence: Evidence | None = field(default=None, metadata=OPTIONAL)
    ledger: Sequence[Mapping[str, Any]] = field(metadata=PRIVATE)
    after: Sequence[PromptEntry] = field(metadata=PRIVATE)

    @property
    def removed_count(self) -> int:
        """The messages of the conversation that left the prompt.

        The fates also count cleared messages, which stay without their content, and the summaries and pointers of
        earlier compactions. They are used for clients that sent nothing else.
        """
        if is_count(self.pruned_count):
            return self.pruned_count
        left = (count for fate, count in (self.fates or {}).items() if fate not in {*REMAINING_FATES, "cleared"})
        return sum(filter(is_count, left))

    def line(self) -> str:
        removed = format_count(self.removed_count, "message")
        return f"{removed} removed, {format_reduction(self.tokens_before, self.tokens_after)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCompactionEvent(Event):
    """The provider compacted a conversation, or cleared parts of it, on its own side."""

    name: ClassVar[str] = "compact.provider_compaction"

    provider: str
    kind: str
    is_disclosed: bool
    tokens_before: int | None
    fates: Mapping[str, int]
    inferred: bool
    item_id: str | None = field(default=None, metadata=OPTIONAL)
    cleared_tool_uses: int | None = field(default=None, metadata=OPTIONAL)
    cleared_thinking_turns: int | None = field(default=None, metadata=OPTIONAL)
    cleared_input_tokens: int | None = field(default=None, metadata=OPTIONAL)
    facts_total: int | None = field(default=None, metadata=OPTIONAL)
    facts_kept: int | None = field(default=None, metadata=OPTIONAL)
    weighted_retention: float | None = field(default=None, metadata=OPTIONAL)
    by_kind: Mapping[str, Mapping[str, int]] | None = field(default=None, metadata=OPTIONAL)
    note: str | None = field(default=None, metadata={**OPTIONAL, **SENTENCE})
    summary: str | None = field(default=None, metadata=PRIVATE_TEXT)
    ledger: Sequence[Mapping[str, Any]] = field(default=(), metadata=PRIVATE)
    after: Sequence[Mapping[str, Any]] = field(default=(), metadata=PRIVATE)
    lost: Sequence[Mapping[str, Any]] = field(default=(), metadata=PRIVATE_TEXT)

    def line(self) -> str:
        return join_parts(f"{self.provider or 'The provider'} applied {self.kind or 'a compaction'}", self.note)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedEvent(Event):
    """A compaction ended, with the tokens it freed."""

    name: ClassVar[str] = "compact.completed"

    tokens_before: int
    tokens_after: int
    budget_limit: int | None
    tokens_freed: int
    strategy: str
    details: CompletedDetails

    def line(self) -> str:
        if detail(self.details, "changed") is False:
            return f"Unchanged at {format_number(self.tokens_before)} tokens"
        freed = "" if self.tokens_freed is None else f", {self.tokens_freed:,} freed"
        return f"{format_reduction(self.tokens_before, self.tokens_after)}{freed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerOpenEvent(Event):
    """A compaction was skipped because the last ones freed almost nothing."""

    name: ClassVar[str] = "compact.breaker_open"

    tokens_before: int
    budget_limit: int | None
    details: ReasonDetails

    def line(self) -> str:
        return join_parts("Skipped", detail(self.details, "reason"))


@dataclass(frozen=True, slots=True, kw_only=True)
class OverflowRecoveredEvent(Event):
    """The provider rejected the request as too long, and a compaction made it smaller."""

    name: ClassVar[str] = "compact.overflow_recovered"

    attempt: int
    removed_count: int
    tokens_before: int
    tokens_after: int
    limit_tokens: int | None
    requested_tokens: int | None
    window_tokens: int | None
    removed: Sequence[str] = field(metadata=PRIVATE)

    def line(self) -> str:
        removal = describe_removal(self.removed_count or 0)
        return f"{removal[0].upper()}{removal[1:]}, {format_reduction(self.tokens_before, self.tokens_after)}"


def span_properties(span: SpanReference) -> SpanProperties:
    """Describe a span without listing all of its messages."""
    return SpanProperties(
        first_turn=span.first_turn,
        last_turn=span.last_turn,
        message_count=span.message_count,
        start_message_id=span.start_message_id,
        end_message_id=span.end_message_id,
    )
