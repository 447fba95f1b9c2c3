"""Messages between two of one role, for an API whose roles must alternate."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from compact.messages import INSTRUCTION_ROLES, Message
from compact.messages.codecs.base import Codec

TURN_TEXT: Final = "(Messages after the summary follow.)"
SEEN_TEXT: Final = "(Noted.)"


def separator(last: Message, message: Message, codec: Codec) -> Message | None:
    """Return the message that the API requires between two messages, or None if one may follow the other."""
    roles = (last.role, message.role)
    if not codec.rules.alternates_roles or any(role in INSTRUCTION_ROLES for role in roles):
        return None
    if roles == ("assistant", "assistant"):
        return codec.user_message(TURN_TEXT, f"turn-{message.id}")
    return None if "assistant" in roles else codec.assistant_message(SEEN_TEXT, f"seen-{message.id}")


def separate(messages: Sequence[Message], original: Sequence[Message], codec: Codec) -> list[Message]:
    """Return the messages with separators. Those that follow each other in `original` may follow each other here."""
    if not codec.rules.alternates_roles:
        return list(messages)
    successors = {(one.id, two.id) for one, two in pairwise(original)}
    separated = list(messages[:1])
    for last, message in pairwise(messages):
        between = None if (last.id, message.id) in successors else separator(last, message, codec)
        separated += [message] if between is None else [between, message]
    return separated
