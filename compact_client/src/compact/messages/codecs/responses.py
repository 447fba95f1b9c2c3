"""Codec for OpenAI Responses items.

Calls and outputs are separate items that share a `call_id`. Reasoning belongs to the item after it. A `compaction`
item is sealed by the provider and is never moved or removed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from compact.exceptions import MalformedMessage
from compact.messages import Message, Role, ToolCall, text_of
from compact.messages.api_rules import RESPONSES_RULES
from compact.messages.block_kinds import (
    BLOCK_KINDS,
    TEXT_KINDS,
    BlockKind,
    Content,
    Format,
    has_format,
    is_item,
    linked_ids,
)
from compact.messages.codecs.base import (
    ChangeOutput,
    DictCodec,
    document_text,
    fill_template,
    meta_field,
    require_mapping,
    string_field,
)
from compact.messages.media import Media, media_in, without_binary
from compact.messages.message import Kind

_ROLES: dict[str, Role] = {"system": "system", "developer": "developer", "user": "user", "assistant": "assistant"}
_PROVIDER = "openai"
# Encrypted reasoning is base64 with about as many bytes as its text: about six characters per token.
_SEALED_CHARS_PER_TOKEN = 6


class ResponsesCodec(DictCodec):
    name = "responses"
    rules = RESPONSES_RULES

    def recognizes(self, item: Mapping[str, Any]) -> bool:
        """True if the item has a type or a content part that only the Responses format has."""
        kind = item.get("type")
        if isinstance(kind, str) and ("role" not in item or is_item(item)):
            return True
        parts = item.get("content")
        # An item in the content of a message is a block of another format with the same name.
        return isinstance(parts, list) and any(
            has_format(part, Format.RESPONSES) and not is_item(part) for part in parts
        )

    def decode(self, item: Any, index: int) -> Message:
        item = require_mapping(item, index)
        kind = string_field(item, "type") if "type" in item else "message"
        if kind == "message" and string_field(item, "role") in _ROLES:
            return _decode_message(item)
        row = BLOCK_KINDS.get(kind)
        if row is None or not row.is_item:
            return _decode_other(item, is_hosted=False)
        if row.is_sealed or row.content is Content.REASONING:
            return _decode_reasoning(item, is_sealed=row.is_sealed)
        if row.answered_by:
            return _decode_call(item, row, index)
        if row.content is Content.RESULT:
            return _decode_output(item, row, index)
        if row.media:
            return _decode_media(item)
        if row.is_instruction:
            return replace(_decode_other(item, is_hosted=False), role="developer", kind="message")
        return _decode_other(item, is_hosted=row.is_hosted)

    def encode(self, message: Message) -> Any:
        return message.source if message.source is not None else {"role": message.role, "content": message.text}

    def tool_message(self, call: ToolCall, call_message: Message, text: str, message_id: str) -> Message:
        item = call_message.source or {}
        answer = BLOCK_KINDS[BLOCK_KINDS[item.get("type", "function_call")].answered_by]
        source: dict[str, Any] = {
            "type": answer.name,
            answer.id_key: call.id,
            **fill_template(answer.aborted, call.id, text),
        }
        if item.get("pending_safety_checks"):
            source["acknowledged_safety_checks"] = item["pending_safety_checks"]
        if item.get("caller"):
            source["caller"] = item["caller"]
        media = media_in(source.get("output"), _PROVIDER)
        return Message(
            "tool", text, tool_call_id=call.id, id=message_id, links=linked_ids(source), media=media, source=source
        )

    def map_outputs(self, message: Message, change: ChangeOutput) -> Message:
        source = message.source or {}
        output = source.get("output")
        changed = _change_output(source, message.tool_call_id or "", change)
        if changed == output:
            return message
        return replace(self.decode({**source, "output": changed}, 0), meta=message.meta, id=message.id)


def _decode_media(item: Mapping[str, Any]) -> Message:
    # The picture is beside its other fields. Its base64 is no text, whatever its format.
    rest = {key: value for key, value in item.items() if key != "result"}
    return replace(_decode_other(rest, is_hosted=True), media=media_in([item], _PROVIDER), source=item)


def _decode_reasoning(item: Mapping[str, Any], *, is_sealed: bool) -> Message:
    tokens = _sealed_tokens(item)
    if is_sealed:
        return Message("assistant", "", kind="sealed", extra_tokens=tokens, source=item)
    text = "\n".join(filter(None, (text_of(item.get("summary")), text_of(item.get("content")))))
    return Message("assistant", text, kind="reasoning", extra_tokens=tokens, source=item)


def _change_output(source: Mapping[str, Any], call_id: str, change: ChangeOutput) -> Any:
    """Return an item's output with its texts changed. Screenshots and structured results stay unchanged."""
    output = source.get("output")
    if isinstance(output, str):
        return change(call_id, output)
    if source.get("type") == "shell_call_output" and isinstance(output, list):
        return [_change_shell_result(result, call_id, change) for result in output]
    if texts := _text_parts(output):
        joined = "\n".join(texts)
        text = change(call_id, joined)
        others = [part for part in output or [] if part.get("type") not in TEXT_KINDS]
        return output if text == joined else [{"type": "input_text", "text": text}, *others]
    return output


def _change_shell_result(result: Any, call_id: str, change: ChangeOutput) -> Any:
    """Return the result of one shell command with its stdout and stderr changed."""
    if not isinstance(result, Mapping):
        return result
    return {**result, **{name: change(call_id, result[name]) for name in ("stdout", "stderr") if result.get(name)}}


def _text_parts(output: Any) -> list[str]:
    if not isinstance(output, list):
        return []
    return [
        part["text"]
        for part in output
        if isinstance(part, Mapping) and part.get("type") in TEXT_KINDS and isinstance(part.get("text"), str)
    ]


def _decode_other(item: Mapping[str, Any], *, is_hosted: bool) -> Message:
    """Read an item that has its result in itself, or one of an unknown kind."""
    drop = ("type", "id", "status") if is_hosted else ("type", "id")
    rest, media = without_binary({key: value for key, value in item.items() if key not in drop}, _PROVIDER)
    text = _compact_json(rest, drop=())
    kind: Kind = "message" if is_hosted else "opaque"
    return Message("assistant", text, kind=kind, links=linked_ids(item), media=media, source=item)


def _decode_message(item: Mapping[str, Any]) -> Message:
    content = item.get("content")
    media = media_in(content, _PROVIDER)
    return Message(_ROLES[item["role"]], document_text(content), meta_field(item), media=media, source=item)


def _decode_call(item: Mapping[str, Any], row: BlockKind, index: int) -> Message:
    call_id = item.get(row.id_key) or item.get("id")
    # Without a call id, the provider itself searches.
    is_search = row.name == "tool_search_call" and not item.get("call_id")
    if not isinstance(call_id, str) or not call_id:
        if is_search:
            return Message("assistant", _compact_json(item, drop=("type",)), kind="opaque", source=item)
        raise MalformedMessage(index, f"is a {row.name} without a call_id")
    arguments = item.get("arguments", item.get("input"))
    if not isinstance(arguments, str):
        arguments = _compact_json(item, drop=("type", "id", "call_id", "status", "name"))
    name = str(item.get("name") or row.name)
    call = ToolCall(call_id, name, arguments, needs_output=not (row.is_hosted or is_search), is_hosted=row.is_hosted)
    return Message("assistant", "", tool_calls=(call,), links=linked_ids(item), source=item)


def _decode_output(item: Mapping[str, Any], row: BlockKind, index: int) -> Message:
    call_id = item.get("call_id") or item.get(row.id_key)
    if not isinstance(call_id, str) or not call_id:
        if row.name == "tool_search_output":
            return Message("assistant", _compact_json(item, drop=("type",)), kind="opaque", source=item)
        raise MalformedMessage(index, f"is a {row.name} without a call_id")
    text, media = _output_text(item)
    return Message("tool", text, tool_call_id=call_id, links=linked_ids(item), media=media, source=item)


def _output_text(item: Mapping[str, Any]) -> tuple[str, tuple[Media, ...]]:
    """Return the text of an output item, and its images and files."""
    output = item.get("output")
    if isinstance(output, str):
        return output, ()
    media = media_in(output, _PROVIDER)
    if media or _text_parts(output):
        return document_text(output) if isinstance(output, list) else "", media
    rest, media = without_binary(
        {key: value for key, value in item.items() if key not in ("type", "id", "call_id", "status")}, _PROVIDER
    )
    return _compact_json(rest, drop=()), media


def _sealed_tokens(item: Mapping[str, Any]) -> int:
    return len(string_field(item, "encrypted_content")) // _SEALED_CHARS_PER_TOKEN


def _compact_json(item: Mapping[str, Any], *, drop: tuple[str, ...]) -> str:
    rest = {key: value for key, value in item.items() if key not in drop}
    return json.dumps(rest, ensure_ascii=False, separators=(",", ":"), default=str) if rest else ""
