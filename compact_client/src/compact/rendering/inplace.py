"""Each span's summary where the span began (document 003); everything else stays in its place."""

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
from compact.rendering.base import cleared, led_by_user, pointer_text
from compact.summary.structured_summary import StructuredSummary


class InplaceRenderer:
    name = "inplace"

    def summary_text(self, summary: StructuredSummary, step: int) -> str:
        return summary.render(version=step)

    def render(self, messages: Sequence[Message], plan: CompactionPlan, codec: Codec) -> list[Message]:
        rendered: list[Message] = []
        seen: set[str] = set()
        # Where all that was compacted is externalised, no span can show what is remembered of it.
        lone_summary = plan.summary_text if not plan.summarizations else None
        for message in messages:
            action, record = plan.get_action(message.id or "")
            if action is CompactionAction.DROP:
                continue
            if isinstance(record, SummarizationRecord):
                key = f"span-{record.span.start_message_id}"
                if key not in seen:
                    seen.add(key)
                    rendered.append(codec.assistant_message(span_text(record), key))
            elif isinstance(record, ExternalizationRecord):
                key = f"artifact-{record.artifact_id}" if not record.is_folded else plan.summary_id
                text = pointer_text(record) if not record.is_folded else lone_summary
                if key not in seen and text:
                    seen.add(key)
                    rendered.append(codec.assistant_message(text, key))
            elif isinstance(record, ClearRecord):
                rendered.append(cleared(message, record, codec))
            else:
                rendered.append(message)
        return led_by_user(rendered, codec)


def span_text(record: SummarizationRecord) -> str:
    return f"{SPAN_TAG}{record.span.first_turn}-{record.span.last_turn}]\n{record.summary.render_as_message()}"
