"""Anthropic messages: roles with blocks.

One assistant message may hold thinking (with its signature), text and several calls; the user message after it
holds their results. Both are kept whole.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compact.exceptions import MalformedMessage
from compact.messages import Message, Role, ToolCall, text_of
from compact.messages.codecs.base import IMAGE_TOKENS, ChangeOutput, word

_OWN_BLOCKS = frozenset(
    {
        "tool_use",
        "tool_result",
        "thinking",
        "redacted_thinking",
        "server_tool_use",
        "document",
        "web_search_tool_result",
    }
)
_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant", "developer": "developer"}


class AnthropicCodec:
    name = "anthropic"

    def recognises(self, item: Mapping[str, Any]) -> bool:
        return any(
            word(block, "type") in _OWN_BLOCKS or (block.get("type") == "image" and "source" in block)
            for block in _blocks(item)
        )

    def decode(self, item: Any, index: int) -> Message:
        if not isinstance(item, Mapping):
            raise MalformedMessage(index, f"is a {type(item).__name__}, not a Message or a dict")
        role = _ROLES.get(word(item, "role"))
        meta = item.get("meta")
        meta = meta if isinstance(meta, dict) else {}
        content = item.get("content")
        if role is None:
            return Message("assistant", text_of(content), meta, kind="opaque", source=item)
        if isinstance(content, str):
            return Message(role, content, meta, source=item)
        calls: list[ToolCall] = []
        answers: list[str] = []
        texts: list[str] = []
        extra = 0
        for block in _blocks(item):
            kind = block.get("type")
            if kind == "tool_use":
                if not isinstance(block.get("id"), str) or not block["id"]:
                    raise MalformedMessage(index, "has a tool_use block without an id")
                arguments = json.dumps(block.get("input", {}), ensure_ascii=False, default=str)
                calls.append(ToolCall(block["id"], str(block.get("name", "")), arguments))
            elif kind == "tool_result":
                if not isinstance(block.get("tool_use_id"), str) or not block["tool_use_id"]:
                    raise MalformedMessage(index, "has a tool_result block without a tool_use_id")
                answers.append(block["tool_use_id"])
                texts.append(text_of(block.get("content")))
                extra += _image_tokens(block.get("content"))
            elif kind in ("text", "thinking"):
                texts.append(text_of(block))
            elif kind == "redacted_thinking":
                extra += len(str(block.get("data", ""))) // 6
            elif kind in ("image", "document"):
                extra += IMAGE_TOKENS
            else:
                texts.append(json.dumps(dict(block), ensure_ascii=False, separators=(",", ":"), default=str))
        return Message(
            "tool" if answers else role,
            "\n".join(text for text in texts if text),
            meta,
            tool_calls=tuple(calls),
            tool_call_id=answers[0] if answers else None,
            also_answers=tuple(answers[1:]),
            extra_tokens=extra,
            source=item,
        )

    def encode(self, message: Message) -> Any:
        if message.source is not None:
            return message.source
        return {"role": "user" if message.role == "tool" else message.role, "content": message.text}

    def assistant_message(self, text: str, message_id: str) -> Message:
        return Message("assistant", text, id=message_id, source={"role": "assistant", "content": text})

    def user_message(self, text: str, message_id: str) -> Message:
        return Message("user", text, id=message_id, source={"role": "user", "content": text})

    def tool_message(self, call: ToolCall, call_message: Message, text: str, message_id: str) -> Message:
        # A message of its own is enough: the API joins consecutive user messages.
        block = {"type": "tool_result", "tool_use_id": call.id, "content": text, "is_error": True}
        return Message("tool", text, tool_call_id=call.id, id=message_id, source={"role": "user", "content": [block]})

    def outputs(self, message: Message) -> Sequence[tuple[str, str]]:
        if message.source is None:
            return ((message.tool_call_id or "", message.text),) if message.role == "tool" else ()
        results = (block for block in _blocks(message.source) if block.get("type") == "tool_result")
        return [(block["tool_use_id"], text_of(block.get("content"))) for block in results]

    def map_outputs(self, message: Message, change: ChangeOutput) -> Message:
        if message.source is None or not message.answers:
            return message
        blocks = [
            _changed_result(block, change) if block.get("type") == "tool_result" else block
            for block in _blocks(message.source)
        ]
        if all(new is old for new, old in zip(blocks, _blocks(message.source), strict=True)):
            return message
        source = {**message.source, "content": blocks}
        return replace(self.decode(source, 0), meta=message.meta, id=message.id)

    def without_outputs(self, message: Message, call_ids: Collection[str]) -> Message | None:
        if message.source is None:
            return None
        blocks = [
            block
            for block in _blocks(message.source)
            if block.get("type") != "tool_result" or block.get("tool_use_id") not in call_ids
        ]
        if not blocks:
            return None
        return replace(self.decode({**message.source, "content": blocks}, 0), meta=message.meta, id=message.id)


def _blocks(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = item.get("content")
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []


def _changed_result(block: Mapping[str, Any], change: ChangeOutput) -> Mapping[str, Any]:
    content = block.get("content")
    text = text_of(content)
    changed = change(block["tool_use_id"], text)
    if changed == text:
        return block
    if isinstance(content, list):
        others = [part for part in content if isinstance(part, Mapping) and part.get("type") != "text"]
        return {**block, "content": [{"type": "text", "text": changed}, *others]}
    return {**block, "content": changed}


def _image_tokens(content: Any) -> int:
    if not isinstance(content, list):
        return 0
    return sum(IMAGE_TOKENS for part in content if isinstance(part, Mapping) and part.get("type") == "image")
