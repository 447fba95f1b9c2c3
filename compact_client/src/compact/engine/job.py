"""One compaction of one session: what it works on and with, and what it has done so far.

Data, but for `render`: every step of a compaction is a function over these two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from compact import events
from compact.engine.session import Session
from compact.engine.token_counter import Counting
from compact.messages import Message
from compact.planning.draft import Draft
from compact.planning.limits import TokenLimits
from compact.planning.plan import CompactionRecord
from compact.policy import CompactPolicy
from compact.redaction.outbound import OutboundRedactor
from compact.summary.structured_summary import StructuredSummary


@dataclass(slots=True)
class Job:
    """One compaction of one session: what it works on and with."""

    session: Session
    policy: CompactPolicy
    counting: Counting
    check: events.CheckSpan
    outbound: OutboundRedactor
    clock: events.Clock
    room: TokenLimits
    """The limits in our own tokens; `budget_tokens` is the limit as the caller counts."""
    budget_tokens: int
    fixed_tokens: int
    """Tools, instructions, schema and priming: sent with every request."""
    tokens_before: int
    estimate: Callable[[], int]
    """The current request's tokens as the caller's estimator and the provider's usage see them."""
    shorten: Callable[[Message], Message]
    summarizer: Any
    storage: Any = None
    is_archive_required: bool = True
    artifact_store: Any = None
    plan_store: Any = None
    security_context: Any = None
    durability: Mapping[str, Any] = field(default_factory=dict)
    is_manual: bool = False
    is_after_rehydration: bool = False

    def keeps_spans(self, current: Draft) -> bool:
        """Whether earlier spans keep summaries of their own beside the one that is made now."""
        plan = self.session.plan
        has_spans = plan is not None and bool(plan.summarizations)
        return has_spans and self.policy.renderer == "inplace" and not current.folds_replacements


@dataclass(slots=True)
class Climb:
    """What the ladder has done so far."""

    records: list[CompactionRecord] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)
    summary: StructuredSummary | None = None
    summary_text: str | None = None
    summary_tokens: int = 0
    is_new_summary: bool = False
    missing_constraints: int = 0
    """Standing instructions of a user that the summary had no room for."""
    cleared_tokens: int = 0
    """What clearing freed inside units that stay."""
    pointer_tokens: int = 0
    """What the pointers to newly externalised content cost."""


def render(job: Job) -> None:
    job.session.render(count=job.counting.message, shorten=job.shorten, protected_flag=job.policy.protected_flag)
