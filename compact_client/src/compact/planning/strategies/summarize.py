"""Second step of the ladder: replace everything older than the recent window with one summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compact.messages import RedactedMessage
from compact.messages.units import Unit
from compact.planning.plan import SummarizationRecord
from compact.planning.strategies.base import CompactionProposal, StrategyContext
from compact.summary.structured_summary import StructuredSummary


@dataclass(frozen=True, slots=True)
class SpanSummary:
    """The summary of one span, and its tokens."""

    content: StructuredSummary
    tokens: int


class SummarizeStrategy:
    """Summarizes all candidates together."""

    name = "summarize"
    aggressiveness = 2

    def analyze(
        self, context: StrategyContext, candidates: Sequence[Unit], *, tokens_to_free: int
    ) -> list[CompactionProposal]:
        """Propose one span of all candidates. Every edit inside a history costs the prompt cache, so one is enough."""
        if not candidates or not context.can_summarize:
            return []
        tokens = context.tokens_of(candidates)
        span = context.span(candidates)
        return [CompactionProposal(self.name, span, tokens, "older than the recent window", tuple(candidates))]

    def messages(self, proposal: CompactionProposal, context: StrategyContext) -> list[RedactedMessage]:
        """Return the messages of the span, in order."""
        indices = sorted(index for unit in proposal.units for index in unit.indices)
        return [context.messages[index] for index in indices]

    def execute(
        self, proposal: CompactionProposal, context: StrategyContext, result: SpanSummary
    ) -> SummarizationRecord:
        """Return the record with the span's own summary."""
        return SummarizationRecord(proposal.span, result.content, result.tokens)
