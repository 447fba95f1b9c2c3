"""The compaction plan: the action for each message of a log, as versioned data.

A plan refers to messages by id and contains no code, so it can be stored, compared, read in another process, and
rendered again to the same bytes. If several records name a message, the action with the highest precedence wins and
the plan has a warning.
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
    """Action of the renderer for a message."""

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
_RECORD_FIELDS = {
    CompactionAction.EXTERNALIZE: "externalizations",
    CompactionAction.SUMMARIZE: "summarizations",
    CompactionAction.CLEAR: "clearings",
    CompactionAction.DROP: "drops",
}


@dataclass(frozen=True, slots=True)
class ExternalizationRecord:
    """A span written to the artifact store and replaced by a pointer with a brief."""

    span: SpanReference
    artifact_id: str
    summary: StructuredSummary
    rehydrate_hint: str = ""
    is_folded: bool = False
    """True if a later summary contains the pointer. The artifact can still be rehydrated."""


@dataclass(frozen=True, slots=True)
class SummarizationRecord:
    """A span and its summary. A summary is never summarized again, only merged by code."""

    span: SpanReference
    summary: StructuredSummary
    summary_token_count: int = 0


@dataclass(frozen=True, slots=True)
class ClearRecord:
    """A tool output replaced by a placeholder with its preserved fields."""

    span: SpanReference
    preserved_fields: Mapping[str, Any] = field(default_factory=dict)
    """Tool name, outcome and key fields. Grouped by call id if the message contains several results."""
    reason: str = "replayable or ephemeral tool result"


@dataclass(frozen=True, slots=True)
class DropRecord:
    """A span left out of the prompt, with an index for finding it again."""

    span: SpanReference
    reason: str
    index: DroppedSpanIndex | None = None


@dataclass(frozen=True, slots=True)
class DroppedSpanIndex:
    """Keywords and a one-line summary of a dropped span."""

    keywords: tuple[str, ...]
    summary: str
    timestamp: str

    def to_dict(self) -> dict[str, Any]:
        return {"keywords": list(self.keywords), "summary": self.summary, "timestamp": self.timestamp}


CompactionRecord = ExternalizationRecord | SummarizationRecord | ClearRecord | DropRecord


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The fate of one message and the policy rule that decided it."""

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
    """Effect of a plan on the provider's prompt cache."""

    invalidated_tokens: int
    saved_tokens_per_call: int
    break_even_calls: float | None
    """Number of calls after which the savings exceed the invalidated tokens, or None if they never do."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "invalidated_tokens": self.invalidated_tokens,
            "saved_tokens_per_call": self.saved_tokens_per_call,
            "break_even_calls": self.break_even_calls,
        }


_INCLUDE = (CompactionAction.INCLUDE, None)


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """All decisions about the first `thread_version` messages of a thread."""

    thread_id: str
    thread_version: int
    created_at: str
    version: int = 1
    step: int = 1
    """The number of compactions so far. Also the N in `<COMPACT-SUMMARY vN>`."""
    renderer: str = "layered"
    trigger: str = "preflight"
    """The trigger of this compaction: `preflight`, `manual` or `overflow`."""
    externalizations: tuple[ExternalizationRecord, ...] = ()
    summarizations: tuple[SummarizationRecord, ...] = ()
    clearings: tuple[ClearRecord, ...] = ()
    drops: tuple[DropRecord, ...] = ()
    session_summary: StructuredSummary | None = None
    """The records' summaries merged into one, as shown by the layered and bridge renderers."""
    summary_text: str | None = None
    """The rendered session summary. Stored so that a later release renders an old plan to the same bytes."""
    lead_ids: tuple[str, ...] = ()
    """Messages that the layered and bridge renderers place before the summary, in order."""
    user_limits: Mapping[str, int] = field(default_factory=dict)
    """The tokens to which each truncated user message is limited, by its id."""
    output_limits: Mapping[str, int] = field(default_factory=dict)
    """The tokens of each output of a message that stays with excerpts of them, by the id of the message."""
    original_token_count: int = 0
    compacted_token_count: int = 0
    learned_window: int | None = None
    """The context window that a provider's overflow error stated or implied."""
    growth_tokens: tuple[int, ...] = ()
    """Tokens that each of the last calls added, from which the next compaction plans."""
    cache: CacheEffect | None = None
    ledger: tuple[LedgerEntry, ...] = ()
    """The fate of every message of the prompt that was compacted, in order."""
    absorbed: tuple[LedgerEntry, ...] = ()
    """Every message that this and earlier compactions removed from the prompt."""
    full_hashes: Mapping[str, str] = field(default_factory=dict)
    """The hash of each message that a prompt before or after the compaction shows truncated or cleared, by the hash of
    that shorter form. The ledger has only the hashes of full messages."""
    _actions: dict[str, tuple[CompactionAction, CompactionRecord | None]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _warnings: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        seen: dict[str, str] = {}
        for action in sorted(_RECORD_FIELDS, key=COMPACTION_PRECEDENCE.__getitem__):
            name = _RECORD_FIELDS[action]
            self._index_records(action, name, getattr(self, name), seen)

    def _index_records(
        self, action: CompactionAction, name: str, records: Sequence[CompactionRecord], seen: dict[str, str]
    ) -> None:
        # Lists are indexed from lowest to highest precedence, so a later list overwrites. Within a list, the first
        # record of a message wins.
        for record in records:
            entry = (action, record)
            for message_id in record.span.message_ids:
                earlier = seen.get(message_id)
                if earlier == name:
                    self._warnings.append(f"Message {message_id} appears twice in {name}; the first record is used")
                    continue
                if earlier is not None:
                    self._warnings.append(f"Message {message_id} in both {earlier} and {name}; {name} takes precedence")
                seen[message_id] = name
                self._actions[message_id] = entry

    def get_action(self, message_id: str) -> tuple[CompactionAction, CompactionRecord | None]:
        """Return the action and the record for a message. Messages that the plan does not name are included."""
        return self._actions.get(message_id, _INCLUDE)

    @property
    def has_overlaps(self) -> bool:
        """True if several records name the same message."""
        return bool(self._warnings)

    @property
    def normalization_warnings(self) -> tuple[str, ...]:
        """One warning for each overlap, with the record that takes precedence."""
        return tuple(self._warnings)

    @property
    def records(self) -> tuple[CompactionRecord, ...]:
        return (*self.externalizations, *self.summarizations, *self.clearings, *self.drops)

    def report(self) -> str:
        """Return one line about the tokens saved and the messages compressed."""
        saved = self.original_token_count - self.compacted_token_count
        compressed = sum(entry.fate in ("summarized", "externalized", "dropped") for entry in self.ledger)
        share = saved / self.original_token_count if self.original_token_count else 0.0
        report = f"{saved:,} tokens saved ({share:.0%}), {compressed} messages compressed"
        return f"{report} after a context overflow" if self.trigger == "overflow" else report

    @property
    def summary_id(self) -> str:
        """Id of the message that shows the session summary."""
        return f"summary-v{self.step}"

    def to_dict(self) -> dict[str, Any]:
        from compact.planning.plan_json import plan_to_dict

        return plan_to_dict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CompactionPlan:
        from compact.planning.plan_json import plan_from_dict

        return plan_from_dict(data)

    def to_json(self) -> str:
        """Return JSON with sorted keys and in ASCII, so that equal plans have equal text in any encoding."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), default=str)

    @classmethod
    def from_json(cls, text: str) -> CompactionPlan:
        return cls.from_dict(json.loads(text))
