"""Codec for Anthropic messages, whose content is a list of blocks.

An assistant message may contain thinking (with its signature), text and several tool calls. The user message after it
contains their results. Both are kept whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from compact.exceptions import MalformedMessage
from compact.messages import Message, Role, ToolCall, text_of
from compact.messages.api_rules import ANTHROPIC_RULES
from compact.messages.block_kinds import Content, Format, has_format, kind_of, linked_ids
from compact.messages.codecs.base import (
    ChangeOutput,
    DictCodec,
    document_text,
    meta_field,
    require_mapping,
    string_field,
)
from compact.messages.media import Media, media_in, without_binary

Block = Mapping[str, Any]

_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant", "developer": "developer"}
_PROVIDER = "anthropic"
# Redacted thinking is encrypted: about six base64 characters per token.
_REDACTED_CHARS_PER_TOKEN = 6


class AnthropicCodec(DictCodec):
    name = "anthropic"
    rules = ANTHROPIC_RULES

    def recognizes(self, item: Mapping[str, Any]) -> bool:
        """True if the item has a block that only Anthropic's format has."""
        return any(
            has_format(block, Format.ANTHROPIC) or (block.get("type") == "image" and "source" in block)
            for block in _blocks(item)
        )

    def decode(self, item: Any, index: int) -> Message:
        item = require_mapping(item, index)
        role = _ROLES.get(string_field(item, "role"))
        meta = meta_field(item)
        content = item.get("content")
        if role is None:
            return Message("assistant", text_of(content), meta, kind="opaque", source=item)
        if isinstance(content, str):
            return Message(role, content, meta, source=item)
        parts = _Parts(index)
        for block in _blocks(item):
            _reader_of(block)(parts, block)
            parts.links += linked_ids(block)
        return Message(
            "tool" if parts.answers else role,
            "\n".join(text for text in parts.texts if text),
            meta,
            tool_calls=tuple(parts.calls),
            tool_call_id=parts.answers[0] if parts.answers else None,
            also_answers=tuple(parts.answers[1:]),
            links=tuple(parts.links),
            extra_tokens=parts.extra_tokens,
            media=tuple(parts.media),
            source=item,
        )

    def encode(self, message: Message) -> Any:
        if message.source is not None:
            return message.source
        return {"role": "user" if message.role == "tool" else message.role, "content": message.text}

    def tool_message(self, call: ToolCall, call_message: Message, text: str, message_id: str) -> Message:
        # A separate user message works, because the API merges consecutive user messages.
        block = {"type": "tool_result", "tool_use_id": call.id, "content": text, "is_error": True}
        return Message("tool", text, tool_call_id=call.id, id=message_id, source={"role": "user", "content": [block]})

    def outputs(self, message: Message) -> Sequence[tuple[str, str]]:
        if message.source is None:
            return super().outputs(message)
        results = (block for block in _blocks(message.source) if block.get("type") == "tool_result")
        return [(block["tool_use_id"], document_text(block.get("content"))) for block in results]

    def map_outputs(self, message: Message, change: ChangeOutput) -> Message:
        if message.source is None or not message.answers:
            return message
        blocks = [
            _change_result(block, change) if block.get("type") == "tool_result" else block
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


@dataclass(slots=True)
class _Parts:
    """Contents of a message, collected from its blocks."""

    index: int
    """Index of the message, for errors."""
    texts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    extra_tokens: int = 0
    media: list[Media] = field(default_factory=list)


def _read_text(parts: _Parts, block: Block) -> None:
    parts.texts.append(text_of(block))


def _read_tool_use(parts: _Parts, block: Block) -> None:
    if not isinstance(block.get("id"), str) or not block["id"]:
        raise MalformedMessage(parts.index, "has a tool_use block without an id")
    arguments = json.dumps(block.get("input", {}), ensure_ascii=False, default=str)
    parts.calls.append(ToolCall(block["id"], str(block.get("name", "")), arguments))


def _read_tool_result(parts: _Parts, block: Block) -> None:
    if not isinstance(block.get("tool_use_id"), str) or not block["tool_use_id"]:
        raise MalformedMessage(parts.index, "has a tool_result block without a tool_use_id")
    parts.answers.append(block["tool_use_id"])
    parts.texts.append(document_text(block.get("content")))
    parts.media += media_in(block.get("content"), _PROVIDER)


def _read_reasoning(parts: _Parts, block: Block) -> None:
    """Read thinking, or count it if it is encrypted."""
    parts.texts.append(text_of(block))
    parts.extra_tokens += len(string_field(block, "data")) // _REDACTED_CHARS_PER_TOKEN


def _read_attachment(parts: _Parts, block: Block) -> None:
    source = block.get("source")
    nested = source.get("content") if isinstance(source, Mapping) and source.get("type") == "content" else None
    parts.texts.append(document_text(nested) if nested is not None else document_text([block]))
    parts.media += media_in(block, _PROVIDER)


def _read_unknown(parts: _Parts, block: Block) -> None:
    # A mark of the provider's cache moves with every request, and is no part of what was said.
    rest, media = without_binary({key: value for key, value in block.items() if key != "cache_control"}, _PROVIDER)
    parts.texts.append(json.dumps(rest, ensure_ascii=False, separators=(",", ":"), default=str))
    parts.media += media


_READERS: dict[Content, Callable[[_Parts, Block], None]] = {
    Content.TEXT: _read_text,
    Content.REASONING: _read_reasoning,
    Content.CALL: _read_tool_use,
    Content.RESULT: _read_tool_result,
    Content.MEDIA: _read_attachment,
}


def _reader_of(block: Block) -> Callable[[_Parts, Block], None]:
    """Return the reader of a block. Those that only the provider writes are read like those of an unknown kind."""
    kind = kind_of(block)
    if kind is None or kind.is_hosted or (kind.content is Content.TEXT and "text" not in block):
        return _read_unknown
    return _READERS.get(kind.content, _read_unknown)


def _blocks(item: Mapping[str, Any]) -> list[Block]:
    content = item.get("content")
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []


def _change_result(block: Block, change: ChangeOutput) -> Block:
    """Return a tool_result block with its text changed, or the same block if nothing changed."""
    content = block.get("content")
    text = document_text(content)
    changed = change(block["tool_use_id"], text)
    if changed == text:
        return block
    if isinstance(content, list):
        others = [part for part in content if media_in(part)]
        return {**block, "content": [{"type": "text", "text": changed}, *others]}
    return {**block, "content": changed}
