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


class InplaceRenderer:
    name = "inplace"

    def summary_text(self, summary: StructuredSummary, step: int) -> str:
        return summary.render(version=step)

    def render(self, messages: Sequence[Message], plan: CompactionPlan, codec: Codec) -> list[Message]:
        rendered: list[Message] = []
        replaced: set[str] = set()
        newest = plan.summarizations[-1] if plan.summarizations else None
        for message in messages:
            action, record = plan.get_action(message.id or "")
            if action is CompactionAction.DROP:
                continue
            if isinstance(record, SummarizationRecord | ExternalizationRecord):
                replacement_id = _replacement_id(record, plan)
                if replacement_id not in replaced:
                    replaced.add(replacement_id)
                    if text := _replacement_text(record, plan):
                        text = with_recall_line(text, plan.summary_text or "") if record is newest else text
                        rendered.append(codec.assistant_message(text, replacement_id))
            elif isinstance(record, ClearRecord):
                rendered.append(clear_output(message, record, codec))
            else:
                rendered.append(message)
        return ensure_user_first(rendered, codec)


def _replacement_id(record: SummarizationRecord | ExternalizationRecord, plan: CompactionPlan) -> str:
    if isinstance(record, SummarizationRecord):
        return f"span-{record.span.start_message_id}"
    return plan.summary_id if record.is_folded else f"artifact-{record.artifact_id}"


def _replacement_text(record: SummarizationRecord | ExternalizationRecord, plan: CompactionPlan) -> str | None:
    """Return the text that replaces a record's span, or None if nothing does."""
    if isinstance(record, SummarizationRecord):
        return span_text(record)
    if not record.is_folded:
        return pointer_text(record)
    # A folded pointer is part of the session summary. If no span shows that summary, show it here.
    return plan.summary_text if not plan.summarizations else None


def with_recall_line(text: str, summary_text: str) -> str:
    """Return the text of a span with the last line of the session summary, if that is about recall."""
    last_line = summary_text.rpartition("\n")[2]
    return f"{text}\n{last_line}" if last_line.startswith(RECALL_PREFIX) else text


def span_text(record: SummarizationRecord) -> str:
    """Return the text that replaces a summarized span."""
    return f"{SPAN_TAG}{record.span.first_turn}-{record.span.last_turn}]\n{record.summary.render_as_message()}"
