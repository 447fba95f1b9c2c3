"""OpenAI Chat Completions messages.

A call and its output are tied by `tool_call_id`; the old `function_call` form is tied by the function's name.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compact.exceptions import MalformedMessage
from compact.messages import Message, Role, ToolCall, text_of
from compact.messages.codecs.base import IMAGE_TOKENS, ChangeOutput, word

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


class ChatCodec:
    name = "chat"

    def decode(self, item: Any, index: int) -> Message:
        if not isinstance(item, Mapping):
            raise MalformedMessage(index, f"is a {type(item).__name__}, not a Message or a dict")
        role = _ROLES.get(word(item, "role"))
        content = item.get("content")
        text = content if isinstance(content, str) else text_of(content)
        meta = item.get("meta")
        meta = meta if isinstance(meta, dict) else {}
        if role is None:
            return Message("assistant", text, meta, kind="opaque", source=item)
        if role == "tool":
            return Message(
                "tool", text, meta, tool_call_id=_answered(item, index), name=word(item, "name") or None, source=item
            )
        return Message(
            role,
            text,
            meta,
            tool_calls=_calls(item, index) if role == "assistant" else (),
            name=word(item, "name") or None,
            extra_tokens=0 if isinstance(content, str) or content is None else _extra_tokens(content),
            source=item,
        )

    def encode(self, message: Message) -> Any:
        if message.source is not None:
            return message.source
        return message.to_dict()

    def assistant_message(self, text: str, message_id: str) -> Message:
        return Message("assistant", text, id=message_id, source={"role": "assistant", "content": text})

    def user_message(self, text: str, message_id: str) -> Message:
        return Message("user", text, id=message_id, source={"role": "user", "content": text})

    def tool_message(self, call: ToolCall, call_message: Message, text: str, message_id: str) -> Message:
        source: dict[str, Any] = {"role": "tool", "tool_call_id": call.id, "content": text}
        if call.id.startswith("function:") and "function_call" in (call_message.source or {}):
            source = {"role": "function", "name": call.name, "content": text}
        return Message("tool", text, tool_call_id=call.id, id=message_id, source=source)

    def outputs(self, message: Message) -> Sequence[tuple[str, str]]:
        return ((message.tool_call_id or "", message.text),) if message.role == "tool" else ()

    def map_outputs(self, message: Message, change: ChangeOutput) -> Message:
        text = message.text
        changed = change(message.tool_call_id or "", text)
        if changed == text:
            return message
        source = {**(message.source or message.to_dict()), "content": changed}
        return replace(message, content=changed, source=source)

    def without_outputs(self, message: Message, call_ids: Collection[str]) -> Message | None:
        return None if set(message.answers) <= set(call_ids) else message


def _answered(item: Mapping[str, Any], index: int) -> str:
    if item.get("role") == "function":
        return f"function:{item.get('name', '')}"
    call_id = item.get("tool_call_id")
    if not isinstance(call_id, str) or not call_id:
        raise MalformedMessage(index, "is a tool message without a tool_call_id")
    return call_id


def _calls(item: Mapping[str, Any], index: int) -> tuple[ToolCall, ...]:
    legacy = item.get("function_call")
    if isinstance(legacy, Mapping):
        name = str(legacy.get("name", ""))
        return (ToolCall(f"function:{name}", name, _json_text(legacy.get("arguments"))),)
    calls = item.get("tool_calls")
    if not calls:
        return ()
    if not isinstance(calls, list | tuple):
        raise MalformedMessage(index, f"has tool_calls of type {type(calls).__name__}, not a list")
    found = []
    for call in calls:
        if not isinstance(call, Mapping) or not isinstance(call.get("id"), str) or not call["id"]:
            raise MalformedMessage(index, "has a tool call without an id")
        function = call.get("function") or call.get("custom") or {}
        if not isinstance(function, Mapping):
            raise MalformedMessage(index, f"has a tool call whose function is a {type(function).__name__}")
        arguments = function.get("arguments", function.get("input"))
        found.append(ToolCall(call["id"], str(function.get("name", "")), _json_text(arguments)))
    return tuple(found)


def _json_text(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else json.dumps(arguments, ensure_ascii=False, default=str)


def _extra_tokens(content: Any) -> int:
    if not isinstance(content, list | tuple):
        return 0
    return sum(
        IMAGE_TOKENS
        for part in content
        if isinstance(part, Mapping) and part.get("type") not in ("text", "refusal", None)
    )
