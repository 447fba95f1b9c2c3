"""The bridge layout (documents 001 and 004): initial context, user messages, a handover summary, protected tools.

User messages stay up to a limit, newest first, and the one that exceeds it is truncated.

It is the layered layout with other messages before the summary, chosen by the plan. The summary starts with a note
that another model began the task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compact.estimators import TiktokenEstimator
from compact.messages import SUMMARY_TAG, Message
from compact.planning.partition import MIN_USER_TOKENS, Partition, ids_of, smallest_bridge_partition
from compact.planning.partition_search import bridge_partitions
from compact.planning.tool_results.truncation import MARKER_TOKENS, truncate_with_split
from compact.rendering.layered import LayeredRenderer
from compact.summary.structured_summary import StructuredSummary

COMPACT_SUMMARY_PREFIX = (
    "Another language model started this task and produced a summary. "
    "Use this to build on existing work and avoid duplication:"
)


class BridgeRenderer(LayeredRenderer):
    name = "bridge"
    keeps_story = False
    partition = staticmethod(smallest_bridge_partition)
    partitions = staticmethod(bridge_partitions)

    def lead_ids(self, partition: Partition, messages: Sequence[Message]) -> tuple[str, ...]:
        """Return the pinned messages without those of tools, then the older user messages."""
        pinned = [unit for unit in partition.pinned_layer if unit.kind != "tool"]
        users = [unit for unit in partition.recent if unit.kind == "user" and unit.last < partition.window_start]
        return ids_of([*pinned, *users], messages)

    def summary_text(self, summary: StructuredSummary, step: int) -> str:
        tag, _, body = summary.render(version=step).partition("\n")
        return f"{tag}\n{COMPACT_SUMMARY_PREFIX}\n{body}"


def is_summary_message(text: str) -> bool:
    """True if a text is an earlier summary, which must not be kept as a user message."""
    return text.startswith((SUMMARY_TAG, COMPACT_SUMMARY_PREFIX))


def collect_user_messages(messages: Sequence[Message]) -> list[str]:
    """Return the texts of the user messages without earlier summaries."""
    return [message.text for message in messages if message.role == "user" and not is_summary_message(message.text)]


def select_user_messages(
    messages: Sequence[str], max_tokens: int = 20_000, count_tokens: Callable[[str], int] | None = None
) -> list[str]:
    """Return the newest user messages within `max_tokens`, in their order. The one that exceeds it is truncated."""
    count_tokens = count_tokens or TiktokenEstimator().count_tokens
    selected: list[str] = []
    left = max_tokens
    for text in reversed(messages):
        tokens = count_tokens(text)
        if tokens > left:
            if left >= MIN_USER_TOKENS:
                selected.append(truncate_with_split(text, left - MARKER_TOKENS, count_tokens))
            break
        selected.append(text)
        left -= tokens
    return selected[::-1]


def build_compacted_history(
    initial_context: Sequence[Message],
    user_messages: Sequence[str],
    summary_text: str,
    protected_messages: Sequence[Message],
) -> list[Message]:
    """Return the initial context, the user messages, the summary and the protected tool messages."""
    return [
        *initial_context,
        *(Message("user", text) for text in user_messages if not is_summary_message(text)),
        Message("assistant", summary_text),
        *protected_messages,
    ]
