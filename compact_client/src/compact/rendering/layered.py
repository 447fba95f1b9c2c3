"""The default layout (document 002): pinned messages, one session summary, recent messages."""

from __future__ import annotations

from collections.abc import Sequence

from compact.messages import INSTRUCTION_ROLES, Message
from compact.messages.codecs.base import Codec
from compact.planning.partition import Partition, ids_of, partition_units
from compact.planning.partition_search import recent_partitions
from compact.planning.plan import (
    ClearRecord,
    CompactionAction,
    CompactionPlan,
    ExternalizationRecord,
    SummarizationRecord,
)
from compact.rendering.base import clear_output, pointer_text
from compact.rendering.user_turns import add_user_turns
from compact.summary.structured_summary import StructuredSummary

_REMOVED = (CompactionAction.SUMMARIZE, CompactionAction.DROP)


class LayeredRenderer:
    name = "layered"
    keeps_spans = False
    keeps_story = True
    partition = staticmethod(partition_units)
    partitions = staticmethod(recent_partitions)

    def lead_ids(self, partition: Partition, messages: Sequence[Message]) -> tuple[str, ...]:
        return ids_of(partition.pinned_layer, messages)

    def summary_home(self, plan: CompactionPlan, span: SummarizationRecord | None) -> str:
        return plan.summary_id

    def summary_text(self, summary: StructuredSummary, step: int) -> str:
        return summary.render(version=step)

    def render(self, messages: Sequence[Message], plan: CompactionPlan, codec: Codec) -> list[Message]:
        order = _LeadOrder(messages, plan)
        lead: list[tuple[int, Message]] = []
        rest: list[Message] = []
        pointers: set[str] = set()
        for index, message in enumerate(messages):
            action, record = plan.get_action(message.id or "")
            if action in _REMOVED:
                continue
            if isinstance(record, ExternalizationRecord):
                if not record.is_folded and record.artifact_id not in pointers:
                    pointers.add(record.artifact_id)
                    rest.append(codec.assistant_message(pointer_text(record), f"artifact-{record.artifact_id}"))
                continue
            shown = clear_output(message, record, codec) if isinstance(record, ClearRecord) else message
            position = order.position(index, message)
            if position is None:
                rest.append(shown)
            else:
                lead.append((position, shown))
        lead.sort(key=lambda item: item[0])
        summary = [codec.assistant_message(plan.summary_text, plan.summary_id)] if plan.summary_text else []
        return add_user_turns([*(message for _, message in lead), *summary, *rest], messages, codec)


class _LeadOrder:
    """Positions of the messages that come before the summary."""

    def __init__(self, messages: Sequence[Message], plan: CompactionPlan) -> None:
        self._positions = {message_id: position for position, message_id in enumerate(plan.lead_ids)}
        self._planned = {entry.id for entry in plan.ledger}
        planned = (index for index, message in enumerate(messages) if message.id in self._planned)
        self._newest_planned = max(planned, default=-1)

    def position(self, index: int, message: Message) -> int | None:
        """Return a sort key for a message before the summary, or None if the message comes after it."""
        position = self._positions.get(message.id or "")
        if position is not None:
            return position
        is_new = message.id not in self._planned and index < self._newest_planned
        # The host changed its instructions after the compaction. The new ones also come first.
        return -1 if is_new and message.role in INSTRUCTION_ROLES else None
