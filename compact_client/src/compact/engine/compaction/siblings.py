"""Siblings of a protected result: results of other calls in the same response.

A provider rejects a response without one of its results, so a pinned unit keeps all of them. Once the unit is older
than the recent window, only the protected result must stay whole. The others are cleared after the summarizer has read
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compact.messages.span import SpanReference
from compact.messages.units import Unit
from compact.planning.partition import PROTECTED_TOOL, partition_units
from compact.planning.plan import ClearRecord
from compact.planning.strategies import StrategyContext

if TYPE_CHECKING:
    from compact.engine.compaction.compaction import Compaction

_PLACEHOLDER_TOKENS = 30
_REASON = "parallel call of a protected tool"


@dataclass(frozen=True, slots=True)
class Sibling:
    """The results in one message that are cleared."""

    unit: Unit
    index: int
    call_ids: tuple[str, ...]
    tokens_freed: int

    def record(self, context: StrategyContext) -> ClearRecord:
        """Return the record with the fields that survive, keyed by call id if the message holds several outputs."""
        message, turn = context.messages[self.index], context.turns[self.index]
        fields = {
            call.id: envelope.preserved_fields
            for index, call, envelope in context.envelopes(self.unit)
            if index == self.index and call.id in self.call_ids
        }
        preserved = fields if message.also_answers else fields[self.call_ids[0]]
        return ClearRecord(SpanReference((message.id or "",), turn, turn), preserved, _REASON)


def find_siblings(compaction: Compaction) -> list[Sibling]:
    """Return the results that only stay because a protected tool was called at the same time."""
    policy, pins = compaction.engine.policy, compaction.pins
    if not any(rule.startswith(PROTECTED_TOOL) for rule in pins.values()):
        return []
    partition = partition_units(
        compaction.units,
        compaction.messages,
        pins,
        keep_turns=policy.keep_recent_turns,
        keep_pairs=policy.keep_tool_io_pairs,
    )
    siblings: list[Sibling] = []
    for unit in partition.pinned_layer:
        if pins[unit.first].startswith(PROTECTED_TOOL):
            siblings += _siblings_in(compaction, unit)
    return siblings


def _siblings_in(compaction: Compaction, unit: Unit) -> list[Sibling]:
    session, codec = compaction.session, compaction.session.codec
    assert codec is not None
    names = {call.id: call.name for index in unit.indices for call in compaction.messages[index].tool_calls}
    siblings = []
    for index in unit.indices:
        message = compaction.messages[index]
        # A message that an earlier compaction cleared has no original text to clear again.
        if session.plan is not None and isinstance(session.plan.get_action(message.id or "")[1], ClearRecord):
            continue
        texts = {
            call_id: text
            for call_id, text in codec.outputs(message)
            if call_id in names and names[call_id] not in compaction.engine.policy.protected_tools
        }
        count_text = compaction.engine.counter.count_text
        tokens_freed = sum(count_text(text) - _PLACEHOLDER_TOKENS for text in texts.values())
        if tokens_freed > 0:
            siblings.append(Sibling(unit, index, tuple(texts), tokens_freed))
    return siblings
