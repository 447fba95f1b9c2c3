"""The in-place layout (document 003): a summary at the start of each compacted span, all else in its place."""

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
from compact.rendering.base import clear_output, pointer_text, span_text, with_recall_line
from compact.rendering.user_turns import add_user_turns
from compact.summary.structured_summary import StructuredSummary


class InplaceRenderer:
    name = "inplace"
    keeps_spans = True
    keeps_story = False
    partition = staticmethod(partition_units)
    partitions = staticmethod(recent_partitions)

    def lead_ids(self, partition: Partition, messages: Sequence[Message]) -> tuple[str, ...]:
        return ids_of(partition.pinned_layer, messages)

    def summary_home(self, plan: CompactionPlan, span: SummarizationRecord | None) -> str:
        return plan.summary_id if span is None else _span_id(span)

    def summary_text(self, summary: StructuredSummary, step: int) -> str:
        return summary.render(version=step)

    def render(self, messages: Sequence[Message], plan: CompactionPlan, codec: Codec) -> list[Message]:
        rendered: list[Message] = []
        replaced: set[str] = set()
        below_summary = _message_below_summary(messages, plan)
        for message in messages:
            if message is below_summary and plan.summary_text:
                rendered.append(codec.assistant_message(plan.summary_text, plan.summary_id))
            action, record = plan.get_action(message.id or "")
            if action is CompactionAction.DROP:
                continue
            if isinstance(record, SummarizationRecord | ExternalizationRecord):
                replacement_id = _replacement_id(record)
                text = _replacement_text(record, plan)
                if text is not None and replacement_id not in replaced:
                    replaced.add(replacement_id)
                    rendered.append(codec.assistant_message(text, replacement_id))
            elif isinstance(record, ClearRecord):
                rendered.append(clear_output(message, record, codec))
            else:
                rendered.append(message)
        return add_user_turns(rendered, messages, codec)


def _message_below_summary(messages: Sequence[Message], plan: CompactionPlan) -> Message | None:
    """Return the message that the session summary precedes, or None if the spans show it.

    Without spans, it lists folded pointers and what was cut from outputs. It takes the place of the first pointer, or
    else it comes before the first message that is not pinned.
    """
    if plan.summarizations:
        return None
    folded = [record.span for record in plan.externalizations if record.is_folded]
    pointers = (message for message in messages if any(span.contains(message.id or "") for span in folded))
    others = (
        message for message in messages if message.id not in plan.lead_ids and message.role not in INSTRUCTION_ROLES
    )
    return next(pointers, None) or next(others, None)


def _replacement_id(record: SummarizationRecord | ExternalizationRecord) -> str:
    if isinstance(record, SummarizationRecord):
        return _span_id(record)
    return f"artifact-{record.artifact_id}"


def _span_id(record: SummarizationRecord) -> str:
    return f"span-{record.span.start_message_id}"


def _replacement_text(record: SummarizationRecord | ExternalizationRecord, plan: CompactionPlan) -> str | None:
    """Return the text that replaces a record's span, or None if nothing does."""
    if isinstance(record, SummarizationRecord):
        text = span_text(record)
        return with_recall_line(text, plan.summary_text or "") if record is plan.summarizations[-1] else text
    # A folded pointer is part of a summary.
    return None if record.is_folded else pointer_text(record)
