"""The renderer protocol, and the parts that all renderers share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from compact.messages import POINTER_TAG, SPAN_TAG, Message
from compact.messages.codecs.base import Codec
from compact.messages.units import Unit
from compact.planning.partition import Partition
from compact.planning.partition_search import PartitionSearch, Step
from compact.planning.plan import ClearRecord, CompactionPlan, ExternalizationRecord, SummarizationRecord
from compact.planning.tool_results.durability import placeholder_text
from compact.summary.renderer import RECALL_PREFIX
from compact.summary.structured_summary import StructuredSummary

COMPACTION_RENDER_FORMAT_VERSION = "v1.0"


class Renderer(Protocol):
    """A layout: what a compaction may keep for it, and how a conversation and its plan become a prompt.

    A new layout is a module and its row in `compact.rendering`. Nothing else tests the name.
    """

    name: str
    keeps_spans: bool
    """True if the summary of each span stays visible in its place. The session's own summary is then for recall."""
    keeps_story: bool
    """True if units older than the recent window may stay with shortened outputs."""

    def partitions(self, search: PartitionSearch) -> Iterator[Step]:
        """Yield partitions that keep less and less."""
        ...

    def partition(
        self,
        units: Sequence[Unit],
        messages: Sequence[Message],
        pins: Mapping[int, str],
        *,
        keep_turns: int,
        keep_pairs: int,
    ) -> Partition:
        """Return the partition that keeps these numbers of turns and tool pairs. Less than one is the least."""
        ...

    def lead_ids(self, partition: Partition, messages: Sequence[Message]) -> tuple[str, ...]:
        """Return the ids of the messages before the summary, in order."""
        ...

    def summary_home(self, plan: CompactionPlan, span: SummarizationRecord | None) -> str:
        """Return the id of the message that shows the summary of a span. Without a span, it is the session's."""
        ...

    def render(self, messages: Sequence[Message], plan: CompactionPlan, codec: Codec) -> list[Message]:
        """Return the prompt."""
        ...

    def summary_text(self, summary: StructuredSummary, step: int) -> str:
        """Return the text of the session summary in this layout."""
        ...


def clear_output(message: Message, record: ClearRecord, codec: Codec) -> Message:
    """Return a tool output with a placeholder in place of its text. Other messages are returned unchanged."""
    if not message.answers and message.role != "tool":
        return message
    fields = record.preserved_fields
    if not message.also_answers:
        return codec.map_outputs(message, lambda _, text: placeholder_text(fields))
    # The message contains several results. Clear only those that the record names by call id.
    return codec.map_outputs(
        message, lambda call_id, text: placeholder_text(fields[call_id]) if call_id in fields else text
    )


def pointer_text(record: ExternalizationRecord) -> str:
    """Return the text that replaces externalized content."""
    return (
        f"{POINTER_TAG}{record.artifact_id}]\n"
        f"Summary: {record.summary.render_as_message()}\n"
        f'To retrieve full content, call: read_artifact("{record.artifact_id}")'
    )


def span_text(record: SummarizationRecord) -> str:
    """Return the text that replaces a summarized span where each span keeps its summary."""
    return f"{SPAN_TAG}{record.span.first_turn}-{record.span.last_turn}]\n{record.summary.render_as_message()}"


def with_recall_line(text: str, summary_text: str) -> str:
    """Return the text of a span with the last line of the session summary, if that is about recall."""
    last_line = summary_text.rpartition("\n")[2]
    return f"{text}\n{last_line}" if last_line.startswith(RECALL_PREFIX) else text


def recall_line(tool_name: str) -> str:
    """Return the last line of a summary, for an agent that has a tool to search in what was removed."""
    return (
        f"{RECALL_PREFIX}Nothing is lost: call the tool `{tool_name}` with a few words, a name, a path or an id "
        "to read removed messages again."
    )
