"""The in-place layout (document 003): a summary at the start of each compacted span, all else in its place."""

from __future__ import annotations

from collections.abc import Sequence

from compact.messages import SPAN_TAG, Message
from compact.messages.codecs.base import Codec
from compact.planning.plan import (
    ClearRecord,
    CompactionAction,
    CompactionPlan,
    ExternalizationRecord,
    SummarizationRecord,
)
from compact.rendering.base import clear_output, ensure_user_first, pointer_text
from compact.summary.renderer import RECALL_PREFIX
from compact.summary.structured_summary import StructuredSummary

_INSTRUCTIONS = ("system", "developer")


class InplaceRenderer:
    name = "inplace"

    def summary_text(self, summary: StructuredSummary, step: int) -> str:
        return summary.render(version=step)

    def render(self, messages: Sequence[Message], plan: CompactionPlan, codec: Codec) -> list[Message]:
        rendered: list[Message] = []
        replaced: set[str] = set()
        newest = plan.summarizations[-1] if plan.summarizations else None
        below_summary = _message_below_summary(messages, plan)
        for message in messages:
            if message is below_summary and plan.summary_text:
                rendered.append(codec.assistant_message(plan.summary_text, plan.summary_id))
            action, record = plan.get_action(message.id or "")
            if action is CompactionAction.DROP:
                continue
            if isinstance(record, SummarizationRecord | ExternalizationRecord):
                replacement_id = _replacement_id(record)
                text = _replacement_text(record)
                if text is not None and replacement_id not in replaced:
                    replaced.add(replacement_id)
                    text = with_recall_line(text, plan.summary_text or "") if record is newest else text
                    rendered.append(codec.assistant_message(text, replacement_id))
            elif isinstance(record, ClearRecord):
                rendered.append(clear_output(message, record, codec))
            else:
                rendered.append(message)
        return ensure_user_first(rendered, codec)


def _message_below_summary(messages: Sequence[Message], plan: CompactionPlan) -> Message | None:
    """Return the message that the session summary precedes, or None if the spans show it.

    Without spans, it lists folded pointers and what was cut from outputs. It takes the place of the first pointer, or
    else it comes before the first message that is not pinned.
    """
    if plan.summarizations:
        return None
    folded = [record.span for record in plan.externalizations if record.is_folded]
    pointers = (message for message in messages if any(span.contains(message.id or "") for span in folded))
    others = (message for message in messages if message.id not in plan.lead_ids and message.role not in _INSTRUCTIONS)
    return next(pointers, None) or next(others, None)


def _replacement_id(record: SummarizationRecord | ExternalizationRecord) -> str:
    if isinstance(record, SummarizationRecord):
        return f"span-{record.span.start_message_id}"
    return f"artifact-{record.artifact_id}"


def _replacement_text(record: SummarizationRecord | ExternalizationRecord) -> str | None:
    """Return the text that replaces a record's span, or None if nothing does."""
    if isinstance(record, SummarizationRecord):
        return span_text(record)
    # A folded pointer is part of a summary.
    return None if record.is_folded else pointer_text(record)


def with_recall_line(text: str, summary_text: str) -> str:
    """Return the text of a span with the last line of the session summary, if that is about recall."""
    last_line = summary_text.rpartition("\n")[2]
    return f"{text}\n{last_line}" if last_line.startswith(RECALL_PREFIX) else text


def span_text(record: SummarizationRecord) -> str:
    """Return the text that replaces a summarized span."""
    return f"{SPAN_TAG}{record.span.first_turn}-{record.span.last_turn}]\n{record.summary.render_as_message()}"
