"""Codec for OpenAI Chat Completions messages.

A call and its output share a `tool_call_id`. The legacy `function_call` form has no ids, so the function's name
connects them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from compact.exceptions import MalformedMessage
from compact.messages import Message, Role, ToolCall
from compact.messages.api_rules import CHAT_RULES, ApiRules
from compact.messages.codecs.base import (
    ID_OF_NAME,
    ChangeOutput,
    DictCodec,
    document_text,
    meta_field,
    require_mapping,
    string_field,
)
from compact.messages.media import media_in

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


class ChatCodec(DictCodec):
    name = "chat"

    def __init__(self, rules: ApiRules = CHAT_RULES) -> None:
        self.rules = rules

    def decode(self, item: Any, index: int) -> Message:
        item = require_mapping(item, index)
        role = _ROLES.get(string_field(item, "role"))
        content = item.get("content")
        text = content if isinstance(content, str) else document_text(content)
        media = media_in(content)
        meta = meta_field(item)
        if role is None:
            return Message("assistant", text, meta, kind="opaque", media=media, source=item)
        name = string_field(item, "name") or None
        if role == "tool":
            call_id = _output_call_id(item, index)
            return Message("tool", text, meta, tool_call_id=call_id, name=name, media=media, source=item)
        return Message(
            role,
            text,
            meta,
            tool_calls=_calls(item, index) if role == "assistant" else (),
            name=name,
            media=media,
            source=item,
        )

    def encode(self, message: Message) -> Any:
        if message.source is not None:
            return message.source
        return message.to_dict()

    def tool_message(self, call: ToolCall, call_message: Message, text: str, message_id: str) -> Message:
        source: dict[str, Any] = {"role": "tool", "tool_call_id": call.id, "content": text}
        if call.id.startswith(ID_OF_NAME) and "function_call" in (call_message.source or {}):
            source = {"role": "function", "name": call.name, "content": text}
        return Message("tool", text, tool_call_id=call.id, id=message_id, source=source)

    def map_outputs(self, message: Message, change: ChangeOutput) -> Message:
        text = message.text
        changed = change(message.tool_call_id or "", text)
        if changed == text:
            return message
        source = message.source or message.to_dict()
        content: Any = changed
        if message.media and isinstance(source.get("content"), list):
            content = [{"type": "text", "text": changed}, *(part for part in source["content"] if media_in(part))]
        return replace(message, content=changed, source={**source, "content": content})


def _output_call_id(item: Mapping[str, Any], index: int) -> str:
    if item.get("role") == "function":
        return f"{ID_OF_NAME}{item.get('name', '')}"
    call_id = item.get("tool_call_id")
    if not isinstance(call_id, str) or not call_id:
        raise MalformedMessage(index, "is a tool message without a tool_call_id")
    return call_id


def _calls(item: Mapping[str, Any], index: int) -> tuple[ToolCall, ...]:
    legacy_call = item.get("function_call")
    if isinstance(legacy_call, Mapping):
        name = str(legacy_call.get("name", ""))
        return (ToolCall(f"{ID_OF_NAME}{name}", name, _json_text(legacy_call.get("arguments"))),)
    calls = item.get("tool_calls")
    if not calls:
        return ()
    if not isinstance(calls, list | tuple):
        raise MalformedMessage(index, f"has tool_calls of type {type(calls).__name__}, not a list")
    return tuple(_call(call, index) for call in calls)


def _call(call: Any, index: int) -> ToolCall:
    if not isinstance(call, Mapping) or not isinstance(call.get("id"), str) or not call["id"]:
        raise MalformedMessage(index, "has a tool call without an id")
    function = call.get("function") or call.get("custom") or {}
    if not isinstance(function, Mapping):
        raise MalformedMessage(index, f"has a tool call whose function is a {type(function).__name__}")
    arguments = function.get("arguments", function.get("input"))
    return ToolCall(call["id"], str(function.get("name", "")), _json_text(arguments))


def _json_text(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else json.dumps(arguments, ensure_ascii=False, default=str)
