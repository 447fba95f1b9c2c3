"""Codec for Message objects that the caller created.

Decoding and encoding return the same objects. Only synthetic and shortened messages are new. A chat dict among the
messages is decoded and stays a dict.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from compact.messages import Message, ToolCall
from compact.messages.api_rules import CHAT_RULES
from compact.messages.codecs.base import ChangeOutput
from compact.messages.codecs.chat import ChatCodec

_CHAT = ChatCodec()


class NativeCodec:
    name = "native"
    rules = CHAT_RULES

    def decode(self, item: Any, index: int) -> Message:
        return item if isinstance(item, Message) else _CHAT.decode(item, index)

    def encode(self, message: Message) -> Any:
        return message

    def assistant_message(self, text: str, message_id: str) -> Message:
        return Message("assistant", text, id=message_id)

    def user_message(self, text: str, message_id: str) -> Message:
        return Message("user", text, id=message_id)

    def tool_message(self, call: ToolCall, call_message: Message, text: str, message_id: str) -> Message:
        return Message("tool", text, tool_call_id=call.id, name=call.name or None, id=message_id)

    def outputs(self, message: Message) -> Sequence[tuple[str, str]]:
        return _CHAT.outputs(message)

    def map_outputs(self, message: Message, change: ChangeOutput) -> Message:
        if message.source is not None:
            return _CHAT.map_outputs(message, change)
        text = message.text
        changed = change(message.tool_call_id or "", text)
        return message if changed == text else replace(message, content=changed)

    def map_text(self, message: Message, change: Callable[[str], str]) -> Message:
        return _CHAT.map_text(message, change)

    def without_outputs(self, message: Message, call_ids: Collection[str]) -> Message | None:
        rest = tuple(call_id for call_id in message.answers if call_id not in call_ids)
        if not rest:
            return None
        return replace(message, tool_call_id=rest[0], also_answers=rest[1:])

    def add_outputs(self, message: Message, outputs: Sequence[Message]) -> Message | None:
        return None

    def pair(self, message: Message, before: Any) -> Message:
        return message
