"""Third step of the ladder: clear tool outputs whose durability allows it, and keep their key fields."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from compact.messages import ToolCall
from compact.messages.span import SpanReference
from compact.messages.units import Unit
from compact.planning.plan import ClearRecord
from compact.planning.strategies.base import CompactionProposal, StrategyContext
from compact.planning.tool_results.durability import ToolDurability, ToolResultEnvelope, may_clear

_PLACEHOLDER_TOKENS = 30

Results = list[tuple[ToolCall, ToolResultEnvelope]]


class ClearStrategy:
    """Replaces tool outputs with a short placeholder."""

    name = "clear"
    aggressiveness = 3

    def analyze(
        self, context: StrategyContext, candidates: Sequence[Unit], *, tokens_to_free: int
    ) -> list[CompactionProposal]:
        """Propose the oldest clearable outputs, one proposal per message, until enough tokens are freed."""
        proposals: list[CompactionProposal] = []
        freed_tokens = 0
        for unit in candidates:
            for index, results in _clearable_results(context, unit).items():
                if freed_tokens >= tokens_to_free:
                    return proposals
                span = SpanReference((context.messages[index].id or "",), context.turns[index], context.turns[index])
                gain = _count_results(context, index, results) - _PLACEHOLDER_TOKENS * len(results)
                if gain <= 0:
                    continue
                reason = ", ".join(f"{item.durability.value} result of {item.tool_name}" for _, item in results)
                proposals.append(CompactionProposal(self.name, span, gain, reason, (unit,)))
                freed_tokens += gain
        return proposals

    def propose_ephemeral(self, context: StrategyContext, candidates: Sequence[Unit]) -> list[CompactionProposal]:
        """Propose all outputs of ephemeral tools, one proposal per message. Those shorter than a placeholder stay."""
        ephemeral = [unit for unit in candidates if _has_ephemeral(context, unit)]
        proposals = self.analyze(context, ephemeral, tokens_to_free=sys.maxsize)
        return [proposal for proposal in proposals if proposal.reason.startswith(ToolDurability.EPHEMERAL.value)]

    def execute(self, proposal: CompactionProposal, context: StrategyContext, result: None = None) -> ClearRecord:
        """Return the record with the fields that survive, keyed by call id if the message holds several outputs."""
        message_id = proposal.span.start_message_id
        for index, results in _clearable_results(context, proposal.units[0]).items():
            message = context.messages[index]
            if message.id == message_id:
                if not message.also_answers:
                    return ClearRecord(proposal.span, results[0][1].preserved_fields, proposal.reason)
                fields = {call.id: item.preserved_fields for call, item in results}
                return ClearRecord(proposal.span, fields, proposal.reason)
        raise AssertionError(f"Message {message_id} has no clearable tool output.")


def _has_ephemeral(context: StrategyContext, unit: Unit) -> bool:
    return any(envelope.durability is ToolDurability.EPHEMERAL for _, _, envelope in context.envelopes(unit))


def _clearable_results(context: StrategyContext, unit: Unit) -> dict[int, Results]:
    """Return the clearable results of a unit by message index."""
    results: dict[int, Results] = {}
    for index, call, envelope in context.envelopes(unit):
        # The tool's own check of its arguments runs in this process, so it gets the real ones.
        original_call = replace(call, arguments=context.restore(call.arguments))
        if may_clear(envelope, original_call, context.durability_of(call), context.warn):
            results.setdefault(index, []).append((call, envelope))
    return results


def _count_results(context: StrategyContext, index: int, results: Results) -> int:
    """Return the tokens of some results of a message, as the prompt shows them."""
    message = context.messages[index]
    if not message.also_answers:
        return context.counts[index]
    return context.count_outputs(index, {call.id for call, _ in results})
