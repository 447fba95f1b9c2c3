"""The codec protocol, and the code that the codecs of dict formats share.

A codec never modifies the item it receives. A changed text is a new item.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from compact.exceptions import MalformedMessage
from compact.messages import Message, ToolCall, text_of
from compact.messages.api_rules import CHAT_RULES, ApiRules
from compact.messages.block_kinds import CALL_ID, TEXT
from compact.messages.media import text_in_document

ABORTED = "aborted"
"""Text of the output of a stopped call, and key in `meta` of the calls that were stopped if a message has several."""
ID_OF_NAME = "function:"
"""Start of the id of a call that has none, and is known by the name of its function."""
_TEXT_PARTS = ("text", "input_text")

ChangeOutput = Callable[[str, str], str]
"""Returns the new text of an output, given its call id and its text."""


class Codec(Protocol):
    """Reads and writes one message format."""

    name: str
    rules: ApiRules

    def decode(self, item: Any, index: int) -> Message:
        """Read one item. Raise `MalformedMessage` if no provider would accept it."""
        ...

    def encode(self, message: Message) -> Any:
        """Write one message. An unchanged message is encoded to the item it was decoded from."""
        ...

    def assistant_message(self, text: str, message_id: str) -> Message:
        """Create a synthetic assistant message."""
        ...

    def user_message(self, text: str, message_id: str) -> Message:
        """Create a synthetic user message."""
        ...

    def tool_message(self, call: ToolCall, call_message: Message, text: str, message_id: str) -> Message:
        """Create a synthetic output for a call without one."""
        ...

    def outputs(self, message: Message) -> Sequence[tuple[str, str]]:
        """Return the call id and the text of each tool output in the message."""
        ...

    def map_outputs(self, message: Message, change: ChangeOutput) -> Message:
        """Return the message with each tool output's text changed, or the same object if nothing changed."""
        ...

    def map_text(self, message: Message, change: Callable[[str], str]) -> Message:
        """Return the message with its longest text changed, or the same object if nothing changed."""
        ...

    def without_outputs(self, message: Message, call_ids: Collection[str]) -> Message | None:
        """Return the message without the outputs of these calls, or None if nothing is left."""
        ...

    def add_outputs(self, message: Message, outputs: Sequence[Message]) -> Message | None:
        """Return the message with further outputs, or None if each output is a message of its own."""
        ...

    def pair(self, message: Message, before: Any) -> Message:
        """Return an output with the ids of the calls in the item before it, for outputs that have no id."""
        ...


class DictCodec:
    """Defaults for formats in which a message is a dict with a role and at most one tool output."""

    rules = CHAT_RULES

    def assistant_message(self, text: str, message_id: str) -> Message:
        return Message("assistant", text, id=message_id, source={"role": "assistant", "content": text})

    def user_message(self, text: str, message_id: str) -> Message:
        return Message("user", text, id=message_id, source={"role": "user", "content": text})

    def outputs(self, message: Message) -> Sequence[tuple[str, str]]:
        return ((message.tool_call_id or "", message.text),) if message.role == "tool" else ()

    def decode(self, item: Any, index: int) -> Message:
        raise NotImplementedError

    def map_text(self, message: Message, change: Callable[[str], str]) -> Message:
        if message.source is None:
            content = change_longest_text(message.content, change)
            return message if content is message.content else replace(message, content=content)
        content = change_longest_text(message.source.get("content"), change)
        if content is message.source.get("content"):
            return message
        return replace(self.decode({**message.source, "content": content}, 0), meta=message.meta, id=message.id)

    def without_outputs(self, message: Message, call_ids: Collection[str]) -> Message | None:
        return None if set(message.answers) <= set(call_ids) else message

    def add_outputs(self, message: Message, outputs: Sequence[Message]) -> Message | None:
        return None

    def pair(self, message: Message, before: Any) -> Message:
        return message


def fill_template(template: Any, call_id: str, text: str) -> Any:
    """Return the fields of a result with a call id and a text in place of `CALL_ID` and `TEXT`."""
    if isinstance(template, Mapping):
        return {key: fill_template(value, call_id, text) for key, value in template.items()}
    if isinstance(template, list):
        return [fill_template(value, call_id, text) for value in template]
    return template.replace(CALL_ID, call_id).replace(TEXT, text) if isinstance(template, str) else template


def change_longest_text(content: Any, change: Callable[[str], str]) -> Any:
    """Return a content with its longest text changed, or the same object if nothing changed."""
    if isinstance(content, str):
        changed = change(content)
        return content if changed == content else changed
    if not isinstance(content, list | tuple):
        return content
    parts = [part for part in content if isinstance(part, Mapping) and part.get("type") in _TEXT_PARTS]
    if not parts:
        return content
    longest = max(parts, key=lambda part: len(string_field(part, "text")))
    changed = change(string_field(longest, "text"))
    if changed == longest.get("text"):
        return content
    return [{**part, "text": changed} if part is longest else part for part in content]


def document_text(content: Any) -> str:
    """Return the text of a content with its plain-text documents, which providers count as text."""
    if not isinstance(content, list | tuple):
        return text_of(content)
    texts = ((text_in_document(part) if isinstance(part, Mapping) else None) or text_of(part) for part in content)
    return "\n".join(text for text in texts if text)


def require_mapping(item: Any, index: int) -> Mapping[str, Any]:
    """Return the item. Raise `MalformedMessage` if it is not a dict."""
    if not isinstance(item, Mapping):
        raise MalformedMessage(index, f"is a {type(item).__name__}, not a Message or a dict")
    return item


def string_field(item: Mapping[str, Any], key: str) -> str:
    """Return a string field, or an empty string if the field is missing or has another type."""
    value = item.get(key)
    return value if isinstance(value, str) else ""


def meta_field(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the caller's `meta`, or an empty dict if it is missing or has another type."""
    meta = item.get("meta")
    return meta if isinstance(meta, dict) else {}
