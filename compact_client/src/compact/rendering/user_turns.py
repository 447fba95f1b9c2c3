"""User messages that a prompt needs because of what a layout writes and moves.

Anthropic's API merges messages of one role that follow each other, rejects a conversation that starts with the
assistant, and rejects an unfinished tool turn that does not start with its thinking. An instruction among the messages
must follow a turn of the user, and only the assistant may speak after it. In Gemini's API, the roles must alternate.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import Final

from compact.messages import INSTRUCTION_ROLES, Message
from compact.messages.block_kinds import leads_with_reasoning
from compact.messages.codecs.base import Codec
from compact.messages.turns import TURN_TEXT, separator

OPENING_TEXT: Final = "(The conversation so far was compacted; its summary follows.)"
APPLIED_TEXT: Final = "(This instruction applies from here on.)"
NEXT_TEXT: Final = "(Another instruction follows.)"
FILLER_TEXTS: Final = frozenset({OPENING_TEXT, TURN_TEXT, APPLIED_TEXT, NEXT_TEXT})
"""User messages that no user has written."""


def add_user_turns(prompt: Sequence[Message], original: Sequence[Message], codec: Codec) -> list[Message]:
    """Return the prompt with the user messages that it needs, and with its instructions where the API accepts them.

    `original` are the messages as the host has them. Those that follow each other there may follow each other here.
    """
    turns = _Turns(original, codec)
    for message in prompt:
        turns.add(message)
    return turns.finish()


class _Turns:
    """The prompt as far as it is written."""

    def __init__(self, original: Sequence[Message], codec: Codec) -> None:
        self._codec = codec
        self._successors = {(one.id, two.id) for one, two in pairwise(original)}
        # A host that starts with instructions sends them beside the messages.
        self._leading = {message.id for message in takewhile(_is_instruction, original)}
        self._messages: list[Message] = []
        self._last: Message | None = None

    def add(self, message: Message) -> None:
        if message.id in self._leading:
            self._messages.append(message)
            return
        if _is_instruction(message):
            if not self._codec.rules.instructions_follow_user:
                self._messages.append(message)
                return
            self._start_user_turn(message)
        elif self._last is not None and _is_instruction(self._last):
            self._end_instruction(message)
        elif self._last is None and message.role == "assistant" and self._codec.rules.starts_with_user:
            self._add_user(OPENING_TEXT, "opening")
        elif self._last is not None and not self._follows(message):
            self._separate(self._last, message)
        self._messages.append(message)
        self._last = message

    def _separate(self, last: Message, message: Message) -> None:
        """Write what has to stand between two messages that do not follow each other in the host's list."""
        if _breaks_turn(last, message):
            self._add_user(TURN_TEXT, f"turn-{message.id}")
        elif between := separator(last, message, self._codec):
            self._messages.append(between)

    def finish(self) -> list[Message]:
        return self._messages

    def _start_user_turn(self, instruction: Message) -> None:
        """Let the user speak before an instruction."""
        if self._last is None:
            self._add_user(OPENING_TEXT, "opening")
        elif _is_instruction(self._last):
            self._end_instruction(instruction)
            self._add_user(NEXT_TEXT, f"next-{instruction.id}")
        elif self._last.role == "assistant" and not self._follows(instruction):
            self._add_user(TURN_TEXT, f"turn-{instruction.id}")

    def _end_instruction(self, message: Message) -> None:
        """Let the assistant speak between an instruction and this message."""
        if message.role != "assistant" and self._last is not None:
            self._messages.append(self._codec.assistant_message(APPLIED_TEXT, f"applied-{self._last.id}"))

    def _add_user(self, text: str, message_id: str) -> None:
        self._last = self._codec.user_message(text, message_id)
        self._messages.append(self._last)

    def _follows(self, message: Message) -> bool:
        """True if the message follows the last one in the host's list, too."""
        return self._last is not None and (self._last.id, message.id) in self._successors


def _is_instruction(message: Message) -> bool:
    return message.role in INSTRUCTION_ROLES


def _breaks_turn(last: Message, message: Message) -> bool:
    """True if a turn that starts with thinking would become the end of another turn."""
    return last.role == message.role == "assistant" and leads_with_reasoning(
        message.source or {"content": message.content}
    )
