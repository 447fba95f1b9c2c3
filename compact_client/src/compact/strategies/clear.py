"""Rung three: replace tool outputs by what must survive of them, where their durability allows it."""

from __future__ import annotations

from collections.abc import Sequence

from compact.durability import may_clear
from compact.engine.effects import Steps
from compact.plan import ClearRecord, CompactionRecord
from compact.span import SpanReference
from compact.strategies.base import CompactionProposal, Workbench
from compact.units import Unit

_PLACEHOLDER_TOKENS = 30


class ClearStrategy:
    name = "clear"
    aggressiveness = 3

    def analyze(self, bench: Workbench, candidates: Sequence[Unit]) -> list[CompactionProposal]:
        """Oldest first, and no more than are needed."""
        proposals: list[CompactionProposal] = []
        freed = 0
        for unit in candidates:
            for index, call, envelope in bench.envelopes(unit):
                if freed >= bench.tokens_to_free:
                    return proposals
                tokens = bench.counts[index]
                if tokens <= _PLACEHOLDER_TOKENS or not may_clear(envelope, call, bench.durability_of(call)):
                    continue
                span = SpanReference((bench.messages[index].id or "",), bench.turns[index], bench.turns[index])
                gain = tokens - _PLACEHOLDER_TOKENS
                reason = f"{envelope.durability.value} result of {envelope.tool_name}"
                proposals.append(CompactionProposal(self.name, span, gain, reason, (unit,)))
                freed += gain
        return proposals

    def execute(self, proposal: CompactionProposal, bench: Workbench) -> Steps[CompactionRecord]:
        message_id = proposal.span.start_message_id
        for index, _, envelope in bench.envelopes(proposal.units[0]):
            if bench.messages[index].id == message_id:
                return ClearRecord(proposal.span, envelope.preserved_fields)
        raise AssertionError(f"{message_id} is no tool output")
        yield  # pragma: no cover - makes this a generator like its siblings
