"""What a renderer is, and the pieces all three share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from compact.messages import POINTER_TAG, Message
from compact.messages.codecs.base import Codec
from compact.planning.durability import placeholder_text
from compact.planning.plan import ClearRecord, CompactionPlan, ExternalizationRecord
from compact.summary.structured_summary import StructuredSummary

COMPACTION_RENDER_FORMAT_VERSION = "v1.0"


class Renderer(Protocol):
    """Turns a conversation and its plan into what is sent."""

    name: str

    def render(self, messages: Sequence[Message], plan: CompactionPlan, codec: Codec) -> list[Message]: ...

    def summary_text(self, summary: StructuredSummary, step: int) -> str:
        """The text of the session summary as this shape words it."""
        ...


def cleared(message: Message, record: ClearRecord, codec: Codec) -> Message:
    """A tool output with its text replaced by what must survive of it; anything else as it is."""
    if not message.answers and message.role != "tool":
        return message
    fields = record.preserved_fields
    if not message.also_answers:
        return codec.map_outputs(message, lambda _, text: placeholder_text(fields))
    # Of several results in one message, those that the record names by their call.
    return codec.map_outputs(
        message, lambda call_id, text: placeholder_text(fields[call_id]) if call_id in fields else text
    )


def pointer_text(record: ExternalizationRecord) -> str:
    """The line that stands for externalised content."""
    return (
        f"{POINTER_TAG}{record.artifact_id}]\n"
        f"Summary: {record.summary.render_as_message()}\n"
        f'To retrieve full content, call: read_artifact("{record.artifact_id}")'
    )


def led_by_user(messages: list[Message], codec: Codec) -> list[Message]:
    """Anthropic refuses a conversation that opens with the assistant; one line of ours opens it instead."""
    if codec.name != "anthropic" or not messages:
        return messages
    for place, message in enumerate(messages):
        if message.role in ("system", "developer"):
            continue
        if message.role == "assistant":
            opening = codec.user_message("(The conversation so far was compacted; its summary follows.)", "opening")
            return [*messages[:place], opening, *messages[place:]]
        break
    return messages
