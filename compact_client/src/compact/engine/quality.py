"""Canaries of a bad compaction: questions about what was known, repeated reads, tasks that fail.

Cheap signs, emitted after each compaction; a rise of them is worth looking at, one of them is not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from compact.messages import Message

_ASKS = re.compile(
    r"(?:could|can|would) you (?:please )?(?:remind|repeat|re-?share|tell) me"
    r"|what was (?:the|your) [\w\s]{1,40} again"
    r"|I (?:no longer|don['’]t|do not) (?:have|see|recall|remember)[\w\s]{0,40}"
    r"(?:context|conversation|earlier|previous)"
    r"|please (?:resend|repeat|provide again)",
    re.I,
)


def asks_for_context(messages: Sequence[Message]) -> bool:
    """Whether the agent asks for something it was told before."""
    return any(message.role == "assistant" and _ASKS.search(message.text[:4000]) for message in messages)
