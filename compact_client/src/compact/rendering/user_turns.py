"""User messages that a prompt needs because of the assistant messages that a layout writes.

Anthropic's API merges messages of one role that follow each other, rejects a conversation that starts with the
assistant, and rejects an unfinished tool turn that does not start with its thinking.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from compact.messages import Message
from compact.messages.block_kinds import leads_with_reasoning
from compact.messages.codecs.base import Codec

OPENING_TEXT: Final = "(The conversation so far was compacted; its summary follows.)"
TURN_TEXT: Final = "(Messages after the summary follow.)"
_INSTRUCTIONS: Final = ("system", "developer")


def add_user_turns(prompt: Sequence[Message], original: Sequence[Message], codec: Codec) -> list[Message]:
    """Return the prompt with the user messages that it needs.

    `original` are the messages as the host has them. Those that follow each other there may follow each other here.
    """
    successors = {(one.id, two.id) for one, two in pairwise(original)}
    messages: list[Message] = []
    last: Message | None = None
    for message in prompt:
        if message.role in _INSTRUCTIONS:
            messages.append(message)
            continue
        if last is None and message.role == "assistant" and codec.rules.starts_with_user:
            messages.append(codec.user_message(OPENING_TEXT, "opening"))
        elif last is not None and _breaks_turn(last, message) and (last.id, message.id) not in successors:
            messages.append(codec.user_message(TURN_TEXT, f"turn-{message.id}"))
        messages.append(message)
        last = message
    return messages


def _breaks_turn(last: Message, message: Message) -> bool:
    """True if a turn that starts with thinking would become the end of another turn."""
    return last.role == message.role == "assistant" and leads_with_reasoning(
        message.source or {"content": message.content}
    )
