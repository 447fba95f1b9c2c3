"""Initial context, the users' own words, a summary that hands over, protected tools (documents 001 and 004).

The same layout as the layered shape; the plan puts other messages before the summary, and the summary opens by
telling the model whose work it continues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compact.estimators import TiktokenEstimator
from compact.messages import SUMMARY_TAG, Message
from compact.rendering.layered import LayeredRenderer
from compact.summary.structured_summary import StructuredSummary

COMPACT_SUMMARY_PREFIX = (
    "Another language model started this task and produced a summary. "
    "Use this to build on existing work and avoid duplication:"
)


class BridgeRenderer(LayeredRenderer):
    name = "bridge"

    def summary_text(self, summary: StructuredSummary, step: int) -> str:
        tag, _, body = summary.render(version=step).partition("\n")
        return f"{tag}\n{COMPACT_SUMMARY_PREFIX}\n{body}"


def is_summary_message(text: str) -> bool:
    """Whether a text is an earlier summary, which is never kept as a user's message."""
    return text.startswith((SUMMARY_TAG, COMPACT_SUMMARY_PREFIX))


def collect_user_messages(messages: Sequence[Message]) -> list[str]:
    """The users' own words, without earlier summaries."""
    return [message.text for message in messages if message.role == "user" and not is_summary_message(message.text)]


def select_user_messages(
    messages: Sequence[str], max_tokens: int = 20_000, count_tokens: Callable[[str], int] | None = None
) -> list[str]:
    """The newest user messages that fit, in their order."""
    count_tokens = count_tokens or TiktokenEstimator().count_tokens
    selected: list[str] = []
    left = max_tokens
    for text in reversed(messages):
        left -= count_tokens(text)
        if left < 0:
            break
        selected.append(text)
    return selected[::-1]


def build_compacted_history(
    initial_context: Sequence[Message],
    user_messages: Sequence[str],
    summary_text: str,
    protected_messages: Sequence[Message],
) -> list[Message]:
    """Initial context, user messages, summary, protected tools."""
    return [
        *initial_context,
        *(Message("user", text) for text in user_messages if not is_summary_message(text)),
        Message("assistant", summary_text),
        *protected_messages,
    ]
