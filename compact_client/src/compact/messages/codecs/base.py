"""What a codec offers: reading one provider's items and writing them again.

A codec never edits the item it was given; a changed text is a new item.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from compact.messages import Message, ToolCall

ChangeOutput = Callable[[str, str], str]
"""From a call's id and its output's text to the new text."""
IMAGE_TOKENS = 765  # a 1024 x 1024 picture in OpenAI's high detail; others charge about as much


def word(item: Mapping[str, Any], key: str) -> str:
    """The text at a key, where providers have one of a few words; an empty one for anything else."""
    value = item.get(key)
    return value if isinstance(value, str) else ""


class Codec(Protocol):
    """One message format."""

    name: str

    def decode(self, item: Any, index: int) -> Message:
        """Read one item; raises `MalformedMessage` for one that no provider would take."""
        ...

    def encode(self, message: Message) -> Any:
        """Write one message; what came from this codec unchanged goes out unchanged."""
        ...

    def assistant_message(self, text: str, message_id: str) -> Message:
        """A synthetic assistant message."""
        ...

    def user_message(self, text: str, message_id: str) -> Message:
        """A synthetic user message."""
        ...

    def tool_message(self, call: ToolCall, call_message: Message, text: str, message_id: str) -> Message:
        """A synthetic output for a call that has none."""
        ...

    def outputs(self, message: Message) -> Sequence[tuple[str, str]]:
        """The call id and the text of each tool output in the message."""
        ...

    def map_outputs(self, message: Message, change: ChangeOutput) -> Message:
        """The message with each tool output's text changed; the very same object if nothing changed."""
        ...

    def without_outputs(self, message: Message, call_ids: Collection[str]) -> Message | None:
        """The message without its outputs for some calls, or None if nothing is left of it."""
        ...
