"""The table of rules about the order of messages, one row per API. `block_kinds` has the rules of single blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ApiRules:
    """The order of messages that an API accepts."""

    starts_with_user: bool = False
    """True if the first message that is no instruction must be the user's."""
    merges_roles: bool = False
    """True if messages of one role that follow each other are one turn."""
    instructions_follow_user: bool = False
    """True if an instruction among the messages must be alone between a turn of the user and one of the assistant."""
    outputs_follow_calls: bool = True
    """True if no other turn may stand between a call and its output."""
    alternates_roles: bool = False
    """True if user and assistant must take turns, so that one message has all outputs of a response."""


ANTHROPIC_RULES: Final = ApiRules(starts_with_user=True, merges_roles=True, instructions_follow_user=True)
CHAT_RULES: Final = ApiRules()
RESPONSES_RULES: Final = ApiRules(outputs_follow_calls=False)
GEMINI_RULES: Final = ApiRules(starts_with_user=True, alternates_roles=True)
PLAIN_RULES: Final = ApiRules(starts_with_user=True)
"""For messages that every API accepts, before one of them shows which API it is."""
