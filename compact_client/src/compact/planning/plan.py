"""The plan: what happens to each message of a log, as versioned pure data.

It names messages by id and holds no code, so it can be stored, compared, read in another process and rendered
again to the same bytes. `get_action` answers for every id; a conflict is settled by precedence and reported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from compact.messages.span import SpanReference

if TYPE_CHECKING:
    from compact.summary.structured_summary import StructuredSummary

PLAN_FORMAT_VERSION = 1

Fate = Literal["kept", "pinned", "summarized", "cleared", "externalized", "dropped", "truncated"]


class CompactionAction(Enum):
    """What the renderer does with a message."""

    INCLUDE = "include"
    CLEAR = "clear"
    SUMMARIZE = "summarize"
    EXTERNALIZE = "externalize"
    DROP = "drop"


COMPACTION_PRECEDENCE = {
    CompactionAction.DROP: 4,
    CompactionAction.EXTERNALIZE: 3,
    CompactionAction.SUMMARIZE: 2,
    CompactionAction.CLEAR: 1,
    CompactionAction.INCLUDE: 0,
}


@dataclass(frozen=True, slots=True)
class ExternalizationRecord:
    """A span written to the artifact store; a pointer and a brief stand in its place."""

    span: SpanReference
    artifact_id: str
    summary: StructuredSummary
    rehydrate_hint: str = ""
    is_folded: bool = False
    """The pointer has moved into a later summary; the artifact can still be brought back."""


@dataclass(frozen=True, slots=True)
class SummarizationRecord:
    """A span summarised once; the record is never summarised again, only merged by code."""

    span: SpanReference
    summary: StructuredSummary
    summary_token_count: int = 0


@dataclass(frozen=True, slots=True)
class ClearRecord:
    """A tool output whose text was replaced by what must survive of it."""

    span: SpanReference
    preserved_fields: Mapping[str, Any] = field(default_factory=dict)
    """Tool name, outcome, key fields; by call id where the message holds several results."""


@dataclass(frozen=True, slots=True)
class DropRecord:
    """A span left out of the prompt; the index lets it be found again."""

    span: SpanReference
    reason: str
    index: DroppedSpanIndex | None = None


@dataclass(frozen=True, slots=True)
class DroppedSpanIndex:
    """What a dropped span was about."""

    keywords: tuple[str, ...]
    summary: str
    timestamp: str

    def to_dict(self) -> dict[str, Any]:
        return {"keywords": list(self.keywords), "summary": self.summary, "timestamp": self.timestamp}


CompactionRecord = ExternalizationRecord | SummarizationRecord | ClearRecord | DropRecord


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The fate of one message, and the policy line that decided it."""

    id: str
    hash: str
    role: str
    tokens: int
    fate: Fate
    rule: str
    into: str | None = None

    def to_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "id": self.id,
            "hash": self.hash,
            "role": self.role,
            "tokens": self.tokens,
            "fate": self.fate,
            "rule": self.rule,
        }
        if self.into is not None:
            data["into"] = self.into
        return data


@dataclass(frozen=True, slots=True)
class CacheEffect:
    """What a plan costs the provider's prompt cache, and after how many calls it has paid for itself."""

    invalidated_tokens: int
    saved_tokens_per_call: int
    break_even_calls: float | None  # None: it never does

    def to_dict(self) -> dict[str, Any]:
        return {
            "invalidated_tokens": self.invalidated_tokens,
            "saved_tokens_per_call": self.saved_tokens_per_call,
            "break_even_calls": self.break_even_calls,
        }


_INCLUDED = (CompactionAction.INCLUDE, None)


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Everything that was decided about a thread, up to `thread_version` messages of it."""

    thread_id: str
    thread_version: int
    created_at: str
    version: int = 1
    step: int = 1
    """How many compactions led here; also the N of `<COMPACT-SUMMARY vN>`."""
    renderer: str = "layered"
    externalizations: tuple[ExternalizationRecord, ...] = ()
    summarizations: tuple[SummarizationRecord, ...] = ()
    clearings: tuple[ClearRecord, ...] = ()
    drops: tuple[DropRecord, ...] = ()
    session_summary: StructuredSummary | None = None
    """The records' summaries merged by code; what the layered and bridge renderers show."""
    summary_text: str | None = None
    """Its rendered text, fixed here so that a later release renders an old plan to the same bytes."""
    lead_ids: tuple[str, ...] = ()
    """Messages the layered and bridge renderers put before the summary, in order."""
    original_token_count: int = 0
    compacted_token_count: int = 0
    cache: CacheEffect | None = None
    ledger: tuple[LedgerEntry, ...] = ()
    """The fate of every message of the prompt this plan was made from, in order."""
    absorbed: tuple[LedgerEntry, ...] = ()
    """Every message that this and earlier compactions took out of the prompt."""
    _actions: dict[str, tuple[CompactionAction, CompactionRecord | None]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _warnings: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        seen: dict[str, str] = {}
        for action, name, records in (
            (CompactionAction.CLEAR, "clearings", self.clearings),
            (CompactionAction.SUMMARIZE, "summarizations", self.summarizations),
            (CompactionAction.EXTERNALIZE, "externalizations", self.externalizations),
            (CompactionAction.DROP, "drops", self.drops),
        ):
            self._take(action, name, records, seen)

    def _take(
        self, action: CompactionAction, name: str, records: Sequence[CompactionRecord], seen: dict[str, str]
    ) -> None:
        # Lowest precedence first, so a later list overwrites; twice in one list keeps the first.
        for record in records:
            found = (action, record)
            for message_id in record.span.message_ids:
                earlier = seen.get(message_id)
                if earlier == name:
                    self._warnings.append(f"Message {message_id} is twice in {name}; the first record counts")
                    continue
                if earlier is not None:
                    self._warnings.append(f"Message {message_id} in both {earlier} and {name}; {name} takes precedence")
                seen[message_id] = name
                self._actions[message_id] = found

    def get_action(self, message_id: str) -> tuple[CompactionAction, CompactionRecord | None]:
        """What happens to a message; one the plan does not name is included."""
        return self._actions.get(message_id, _INCLUDED)

    @property
    def has_overlaps(self) -> bool:
        return bool(self._warnings)

    @property
    def normalization_warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)

    @property
    def records(self) -> tuple[CompactionRecord, ...]:
        return (*self.externalizations, *self.summarizations, *self.clearings, *self.drops)

    @property
    def summary_id(self) -> str:
        return f"summary-v{self.step}"

    def to_dict(self) -> dict[str, Any]:
        from compact.planning.plan_json import plan_to_dict

        return plan_to_dict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CompactionPlan:
        from compact.planning.plan_json import plan_from_dict

        return plan_from_dict(data)

    def to_json(self) -> str:
        """Deterministic JSON: sorted keys, so two equal plans are equal text; ASCII, so that any file can hold it."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), default=str)

    @classmethod
    def from_json(cls, text: str) -> CompactionPlan:
        return cls.from_dict(json.loads(text))
