"""Pinned messages, one session summary, recent messages: the default shape (document 002)."""

from __future__ import annotations

from collections.abc import Sequence

from compact.messages import Message
from compact.messages.codecs.base import Codec
from compact.planning.plan import ClearRecord, CompactionAction, CompactionPlan, ExternalizationRecord
from compact.rendering.base import cleared, led_by_user, pointer_text
from compact.summary.structured_summary import StructuredSummary


class LayeredRenderer:
    name = "layered"

    def summary_text(self, summary: StructuredSummary, step: int) -> str:
        return summary.render(version=step)

    def render(self, messages: Sequence[Message], plan: CompactionPlan, codec: Codec) -> list[Message]:
        lead_order = {message_id: place for place, message_id in enumerate(plan.lead_ids)}
        known = {entry.id for entry in plan.ledger}
        newest_known = max((place for place, message in enumerate(messages) if message.id in known), default=-1)
        lead: list[tuple[int, Message]] = []
        rest: list[Message] = []
        pointers: set[str] = set()
        for place, message in enumerate(messages):
            message_id = message.id or ""
            action, record = plan.get_action(message_id)
            if action in (CompactionAction.SUMMARIZE, CompactionAction.DROP):
                continue
            if action is CompactionAction.EXTERNALIZE:
                assert isinstance(record, ExternalizationRecord)
                if not record.is_folded and record.artifact_id not in pointers:
                    pointers.add(record.artifact_id)
                    rest.append(codec.assistant_message(pointer_text(record), f"artifact-{record.artifact_id}"))
                continue
            shown = cleared(message, record, codec) if isinstance(record, ClearRecord) else message
            if message_id in lead_order:
                lead.append((lead_order[message_id], shown))
            elif message_id not in known and place < newest_known and message.role in ("system", "developer"):
                # The host changed its instructions: they lead, like those they replace.
                lead.append((-1, shown))
            else:
                rest.append(shown)
        lead.sort(key=lambda item: item[0])
        summary = [codec.assistant_message(plan.summary_text, plan.summary_id)] if plan.summary_text else []
        return led_by_user([*(message for _, message in lead), *summary, *rest], codec)
