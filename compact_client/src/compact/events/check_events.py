"""Events of every check: its span, the token estimate and the trigger decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, TypedDict, get_args

from compact.events.base import FREE_TEXT, OPTIONAL, SENTENCE, Event
from compact.events.phrases import format_count, format_reduction, format_usage, join_parts

__all__ = [
    "EVIDENCE",
    "PROMPT_PARTS",
    "CheckEvent",
    "CheckTrigger",
    "Evidence",
    "KeptCounts",
    "PolicyExcerpt",
    "QualityEvent",
    "TokenEstimateEvent",
    "TriggerDecisionEvent",
]

PROMPT_PARTS = ("system", "developer", "tools_schema", "memory", "history", "user_input")
"""The keys of a breakdown, in the order in which pages draw them. Their tokens add up to the prompt's."""
CheckTrigger = Literal["preflight", "manual", "overflow", "outcome", "auto"]
Evidence = Literal["possible", "inferred", "exact", "reported"]
"""The ways in which a compaction is known, the weakest first: a sign such as fewer tokens, a prompt that was put
together from a log, both prompts as they were sent, and the library that has compacted."""
EVIDENCE: Final[tuple[Evidence, ...]] = get_args(Evidence)


class KeptCounts(TypedDict):
    """Messages, turns and tool pairs that a compaction will keep."""

    pinned: int
    recent_turns: int
    tool_pairs: int


class PolicyExcerpt(TypedDict):
    """The policy settings that decide when to compact and what to keep."""

    trigger_pct: float
    hard_cap_buffer: int
    strategy: str
    keep_recent_turns: int
    keep_tool_io_pairs: int
    renderer: str
    pruning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckEvent(Event):
    """The parent span of one call. Sent open when a compaction starts, and again when the call ends."""

    name: ClassVar[str] = "compact.check"

    turn: int
    model: str | None
    trigger: CheckTrigger
    max_tokens: int | None
    triggered: bool | None = field(default=None, metadata=OPTIONAL)
    tokens_before: int | None = field(default=None, metadata=OPTIONAL)
    tokens_after: int | None = field(default=None, metadata=OPTIONAL)
    step: int | None = field(default=None, metadata=OPTIONAL)
    evidence: Evidence | None = field(default=None, metadata=OPTIONAL)

    def line(self) -> str:
        if self.tokens_before is None:
            return self.model or ""
        if self.triggered is not False and self.tokens_after is not None:
            return format_reduction(self.tokens_before, self.tokens_after)
        return format_usage(self.tokens_before, self.max_tokens or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEstimateEvent(Event):
    """The size of the request, with its share of the context window and its parts."""

    name: ClassVar[str] = "compact.token_estimate"

    model: str | None
    t_est: int
    max_tokens: int | None
    usage_pct: float | None
    turn: int
    estimator: str
    source: Literal["estimate", "provider"]
    breakdown: Mapping[str, int]
    evidence: Evidence | None = field(default=None, metadata=OPTIONAL)

    def line(self) -> str:
        return "" if self.t_est is None else format_usage(self.t_est, self.max_tokens or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerDecisionEvent(Event):
    """The decision to compact or not, with the rule and the numbers behind it."""

    name: ClassVar[str] = "compact.trigger_decision"

    triggered: bool
    reason: str = field(metadata=SENTENCE)
    rule: str = field(metadata=SENTENCE)
    margin_tokens: int | None
    t_est: int
    max_tokens: int | None
    trigger_tokens: int | None
    budget_tokens: int | None
    turn: int
    policy: PolicyExcerpt | None
    note: str | None = field(default=None, metadata={**OPTIONAL, **FREE_TEXT})
    kept: KeptCounts | None = field(default=None, metadata=OPTIONAL)
    pruned_count: int | None = field(default=None, metadata=OPTIONAL)
    evidence: Evidence | None = field(default=None, metadata=OPTIONAL)

    def line(self) -> str:
        verdict = "Compact" if self.triggered else "No compaction"
        used = "" if self.t_est is None else format_usage(self.t_est, self.max_tokens or 0)
        if used and self.trigger_tokens:
            margin = self.trigger_tokens - self.t_est
            # Other rules than the trigger decide against the margin. Their reason says why.
            if bool(self.triggered) == (margin <= 0):
                side = "above" if self.triggered else "below"
                return f"{verdict}: {used}, {abs(margin):,} {side} the trigger of {self.trigger_tokens:,}"
        return join_parts(verdict, self.reason or used)


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityEvent(Event):
    """Signs that a compaction removed something the agent still needs."""

    name: ClassVar[str] = "compact.quality"

    turns_since_compaction: int
    agent_asked_for_context: bool
    rehydration_requests: int
    task_completion_success: bool | None

    def line(self) -> str:
        requests = format_count(self.rehydration_requests or 0, "rehydration request")
        asked = ", the agent asked for lost context" if self.agent_asked_for_context else ""
        return f"{format_count(self.turns_since_compaction or 0, 'turn')} after the compaction: {requests}{asked}"
