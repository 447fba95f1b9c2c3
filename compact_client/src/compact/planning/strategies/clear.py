"""Rung three: replace tool outputs by what must survive of them, where their durability allows it."""

from __future__ import annotations

from collections.abc import Sequence

from compact.engine.effects import Steps
from compact.messages import ToolCall
from compact.messages.span import SpanReference
from compact.messages.units import Unit
from compact.planning.durability import ToolResultEnvelope, may_clear
from compact.planning.plan import ClearRecord, CompactionRecord
from compact.planning.strategies.base import CompactionProposal, Workbench

_PLACEHOLDER_TOKENS = 30


class ClearStrategy:
    name = "clear"
    aggressiveness = 3

    def analyze(self, bench: Workbench, candidates: Sequence[Unit]) -> list[CompactionProposal]:
        """Oldest first, and no more than are needed."""
        proposals: list[CompactionProposal] = []
        freed = 0
        for unit in candidates:
            for index, clearable in _clearable(bench, unit).items():
                if freed >= bench.tokens_to_free:
                    return proposals
                span = SpanReference((bench.messages[index].id or "",), bench.turns[index], bench.turns[index])
                gain = _tokens(bench, index, clearable) - _PLACEHOLDER_TOKENS * len(clearable)
                if gain <= 0:
                    continue
                reason = ", ".join(f"{item.durability.value} result of {item.tool_name}" for _, item in clearable)
                proposals.append(CompactionProposal(self.name, span, gain, reason, (unit,)))
                freed += gain
        return proposals

    def execute(self, proposal: CompactionProposal, bench: Workbench) -> Steps[CompactionRecord]:
        message_id = proposal.span.start_message_id
        for index, clearable in _clearable(bench, proposal.units[0]).items():
            if bench.messages[index].id == message_id:
                fields = {call.id: envelope.preserved_fields for call, envelope in clearable}
                is_one = not bench.messages[index].also_answers
                return ClearRecord(proposal.span, clearable[0][1].preserved_fields if is_one else fields)
        raise AssertionError(f"{message_id} is no tool output")
        yield  # pragma: no cover - makes this a generator like its siblings


def _clearable(bench: Workbench, unit: Unit) -> dict[int, list[tuple[ToolCall, ToolResultEnvelope]]]:
    """By the place of each message, its results that may give way."""
    found: dict[int, list[tuple[ToolCall, ToolResultEnvelope]]] = {}
    for index, call, envelope in bench.envelopes(unit):
        if may_clear(envelope, call, bench.durability_of(call)):
            found.setdefault(index, []).append((call, envelope))
    return found


def _tokens(bench: Workbench, index: int, clearable: Sequence[tuple[ToolCall, ToolResultEnvelope]]) -> int:
    """The tokens of some results of a message, as far as it shows them."""
    message = bench.messages[index]
    if not message.also_answers:
        return bench.counts[index]
    ids = {call.id for call, _ in clearable}
    return sum(bench.count_text(text) for call_id, text in bench.outputs(message) if call_id in ids)
