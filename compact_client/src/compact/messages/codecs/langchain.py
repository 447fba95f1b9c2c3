"""Codec for LangChain message objects, read as the dicts that their `model_dump` returns.

The host's own objects are returned where they are unchanged. LangChain is imported only to write new messages. Fields
that no provider sees are not read: an artifact can be any object, which may not be copied, compared or serialized.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from compact.exceptions import MalformedMessage
from compact.messages import Message, Role, ToolCall, text_of
from compact.messages.block_kinds import is_call, linked_ids
from compact.messages.codecs.base import ChangeOutput, DictCodec, document_text, require_mapping, string_field
from compact.messages.codecs.langchain_dumps import DumpCache
from compact.messages.media import media_in

_ROLES: dict[str, Role] = {
    "human": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "SystemMessageChunk": "system",
    "tool": "tool",
    "ToolMessageChunk": "tool",
}
_CLASSES: dict[Role, str] = {
    "user": "HumanMessage",
    "assistant": "AIMessage",
    "system": "SystemMessage",
    "tool": "ToolMessage",
}
_DUMPS = DumpCache()


class HostMessages:
    """A host's messages as the items that codecs read, and back. Only LangChain's objects differ from their items."""

    def __init__(self, messages: Sequence[Any]) -> None:
        self._messages = messages
        self.items: Sequence[Any] = messages
        # Checking for the module first saves a long history the check of each message.
        if (
            "langchain_core" in sys.modules
            and not isinstance(messages, str | bytes | Mapping)
            and hasattr(messages, "__getitem__")
            and any(map(_is_langchain, messages))
        ):
            # A copy, because the host may append to its list during an async call.
            self._messages = list(messages)
            self.items = [_DUMPS.read(message) if _is_langchain(message) else message for message in self._messages]

    def restore(self, returned: list[Any]) -> list[Any]:
        """Return a request with the host's own objects. A shortened tool result keeps its artifact."""
        if self.items is self._messages:
            return returned
        own = {id(item): message for item, message in zip(self.items, self._messages, strict=True)}
        restored = [own.get(id(item)) for item in returned]
        if all(restored):
            return restored
        results = {message.tool_call_id: message for message in self._messages if hasattr(message, "tool_call_id")}
        return [message or _with_unread_fields(item, results) for message, item in zip(restored, returned, strict=True)]


def _is_langchain(message: Any) -> bool:
    return hasattr(message, "additional_kwargs") and hasattr(message, "model_dump")


def _with_unread_fields(message: Any, results: Mapping[str, Any]) -> Any:
    original = results.get(getattr(message, "tool_call_id", ""))
    return message if original is None else original.model_copy(update={"content": message.content})


class LangChainCodec(DictCodec):
    name = "langchain"

    def recognizes(self, item: Mapping[str, Any]) -> bool:
        """True if the item has the keys that every LangChain message has."""
        return "additional_kwargs" in item and item.get("type") in _ROLES

    def decode(self, item: Any, index: int) -> Message:
        item = require_mapping(item, index)
        role = _ROLES.get(string_field(item, "type"))
        content = item.get("content")
        if role is None:
            return Message("assistant", text_of(content), kind="opaque", source=item)
        call_id = string_field(item, "tool_call_id") if role == "tool" else None
        if call_id == "":
            raise MalformedMessage(index, "is a tool message without a tool_call_id")
        return Message(
            role,
            _text(content),
            _meta(item),
            tool_calls=tuple(_call(call, index) for call in item.get("tool_calls") or ())
            if role == "assistant"
            else (),
            tool_call_id=call_id,
            name=string_field(item, "name") or None,
            links=tuple(link for block in content for link in linked_ids(block)) if isinstance(content, list) else (),
            media=media_in(content),
            source=item,
        )

    def encode(self, message: Message) -> Any:
        return message.source if message.source is not None else message.to_dict()

    def assistant_message(self, text: str, message_id: str) -> Message:
        return Message("assistant", text, id=message_id, source=_dump("AIMessage", content=text))

    def user_message(self, text: str, message_id: str) -> Message:
        return Message("user", text, id=message_id, source=_dump("HumanMessage", content=text))

    def tool_message(self, call: ToolCall, call_message: Message, text: str, message_id: str) -> Message:
        source = _dump("ToolMessage", content=text, tool_call_id=call.id, name=call.name, status="error")
        return Message("tool", text, tool_call_id=call.id, id=message_id, source=source)

    def map_outputs(self, message: Message, change: ChangeOutput) -> Message:
        changed = change(message.tool_call_id or "", message.text)
        if message.source is None or changed == message.text:
            return message
        content: Any = changed
        if message.media and isinstance(message.source.get("content"), list):
            parts = message.source["content"]
            content = [{"type": "text", "text": changed}, *(part for part in parts if media_in(part))]
        return replace(message, content=changed, source={**message.source, "content": content})


def to_langchain(source: Mapping[str, Any]) -> Any:
    """Return the LangChain message for a dict that this codec wrote."""
    import langchain_core.messages

    return getattr(langchain_core.messages, _CLASSES[_ROLES[source["type"]]])(**source)


def _dump(class_name: str, **fields: Any) -> dict[str, Any]:
    import langchain_core.messages

    message = getattr(langchain_core.messages, class_name)(**fields)
    dumped: dict[str, Any] = message.model_dump(mode="json", exclude_none=True)
    return dumped


def _meta(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the marks of a message: `additional_kwargs={"protected": True}`, or a dict under its key `meta`."""
    marks = item.get("additional_kwargs")
    if not isinstance(marks, Mapping):
        return {}
    meta = marks.get("meta")
    return {
        **(meta if isinstance(meta, Mapping) else {}),
        **{key: True for key, value in marks.items() if value is True},
    }


def _call(call: Any, index: int) -> ToolCall:
    if not isinstance(call, Mapping) or not isinstance(call.get("id"), str):
        raise MalformedMessage(index, "has a tool call without an id")
    arguments = json.dumps(call.get("args") or {}, ensure_ascii=False, default=str)
    return ToolCall(call["id"], str(call.get("name", "")), arguments)


def _text(content: Any) -> str:
    """Return the text without tool calls, which content blocks repeat."""
    if not isinstance(content, list):
        return text_of(content)
    return document_text([block for block in content if not is_call(block)])
