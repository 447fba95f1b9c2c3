"""Rung two: everything older than the recent window becomes one summarised span."""

from __future__ import annotations

from collections.abc import Sequence

from compact.engine.effects import Steps
from compact.messages.units import Unit
from compact.planning.plan import CompactionRecord, SummarizationRecord
from compact.planning.strategies.base import CompactionProposal, Workbench


class SummarizeStrategy:
    name = "summarize"
    aggressiveness = 2

    def analyze(self, bench: Workbench, candidates: Sequence[Unit]) -> list[CompactionProposal]:
        """One span of all candidates: every edit inside a history costs the prompt cache, so they go together."""
        if not candidates or bench.summarize is None:
            return []
        tokens = bench.tokens_of(candidates)
        return [
            CompactionProposal(
                self.name, bench.span(candidates), tokens, "older than the recent window", tuple(candidates)
            )
        ]

    def execute(self, proposal: CompactionProposal, bench: Workbench) -> Steps[CompactionRecord]:
        assert bench.summarize is not None
        indices = sorted(index for unit in proposal.units for index in unit.indices)
        messages = [bench.original(index) for index in indices]
        summary, tokens = yield from bench.summarize(messages, proposal.span)
        return SummarizationRecord(proposal.span, summary, tokens)
