"""Events of every check: its span, the token estimate and the trigger decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypedDict

from compact.events.base import FREE_TEXT, OPTIONAL, SENTENCE, Event

CheckTrigger = Literal["preflight", "manual", "overflow", "outcome", "auto"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityEvent(Event):
    """Signs that a compaction removed something the agent still needs."""

    name: ClassVar[str] = "compact.quality"

    turns_since_compaction: int
    agent_asked_for_context: bool
    rehydration_requests: int
    task_completion_success: bool | None
