"""OpenAI Responses items.

Calls and outputs are items of their own, tied by `call_id`; reasoning belongs to what follows it; a `compaction`
item is sealed by the provider and never moved or removed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compact.exceptions import MalformedMessage
from compact.messages import Message, Role, ToolCall, text_of
from compact.messages.codecs.base import IMAGE_TOKENS, ChangeOutput, word

OUTPUT_OF = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "shell_call": "shell_call_output",
    "local_shell_call": "local_shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "tool_search_call": "tool_search_output",
    "program": "program_output",
    "mcp_approval_request": "mcp_approval_response",
}
_OUTPUTS = frozenset(OUTPUT_OF.values())
# Run by the provider: the call and its result are one item.
_HOSTED = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"}
)
_KNOWN = frozenset(OUTPUT_OF) | _OUTPUTS | _HOSTED | {"reasoning", "compaction", "item_reference", "mcp_list_tools"}
_ROLES: dict[str, Role] = {"system": "system", "developer": "developer", "user": "user", "assistant": "assistant"}
_TEXT_PARTS = ("input_text", "output_text", "text")
# Encrypted text is base64 of roughly the bytes of the reasoning: about six characters to a token.
_SEALED_CHARS_PER_TOKEN = 6


class ResponsesCodec:
    name = "responses"

    def recognises(self, item: Mapping[str, Any]) -> bool:
        kind = item.get("type")
        if isinstance(kind, str) and (kind in _KNOWN or kind == "message"):
            return True
        if isinstance(kind, str) and "role" not in item:
            return True
        parts = item.get("content")
        return isinstance(parts, list) and any(
            isinstance(part, Mapping) and str(part.get("type", "")).startswith(("input_", "output_")) for part in parts
        )

    def decode(self, item: Any, index: int) -> Message:
        if not isinstance(item, Mapping):
            raise MalformedMessage(index, f"is a {type(item).__name__}, not a Message or a dict")
        kind = word(item, "type") if "type" in item else "message"
        if kind == "message" and word(item, "role") in _ROLES:
            return self._message(item)
        if kind in OUTPUT_OF:
            return _call(item, index)
        if kind in _OUTPUTS:
            return _output(item, index)
        if kind == "reasoning":
            sealed = len(word(item, "encrypted_content")) // _SEALED_CHARS_PER_TOKEN
            text = "\n".join(filter(None, (text_of(item.get("summary")), text_of(item.get("content")))))
            return Message("assistant", text, kind="reasoning", extra_tokens=sealed, source=item)
        if kind == "compaction":
            sealed = len(word(item, "encrypted_content")) // _SEALED_CHARS_PER_TOKEN
            return Message("assistant", "", kind="sealed", extra_tokens=sealed, source=item)
        if kind in _HOSTED:
            return Message("assistant", _compact_json(item, drop=("type", "id", "status")), source=item)
        return Message("assistant", _compact_json(item, drop=("type", "id")), kind="opaque", source=item)

    def _message(self, item: Mapping[str, Any]) -> Message:
        content = item.get("content")
        meta = item.get("meta")
        images = 0
        if isinstance(content, list):
            images = sum(
                IMAGE_TOKENS
                for part in content
                if isinstance(part, Mapping) and part.get("type") in ("input_image", "input_file", "input_audio")
            )
        return Message(
            _ROLES[item["role"]],
            text_of(content),
            meta if isinstance(meta, dict) else {},
            extra_tokens=images,
            source=item,
        )

    def encode(self, message: Message) -> Any:
        return message.source if message.source is not None else {"role": message.role, "content": message.text}

    def assistant_message(self, text: str, message_id: str) -> Message:
        return Message("assistant", text, id=message_id, source={"role": "assistant", "content": text})

    def user_message(self, text: str, message_id: str) -> Message:
        return Message("user", text, id=message_id, source={"role": "user", "content": text})

    def tool_message(self, call: ToolCall, call_message: Message, text: str, message_id: str) -> Message:
        kind = (call_message.source or {}).get("type", "function_call")
        source: dict[str, Any] = {"type": OUTPUT_OF.get(kind, "function_call_output"), "call_id": call.id}
        if kind == "mcp_approval_request":
            source = {"type": "mcp_approval_response", "approval_request_id": call.id, "approve": False}
        elif kind == "local_shell_call":
            source = {"type": "local_shell_call_output", "id": call.id, "output": text}
        elif kind == "shell_call":
            outcome = {"type": "exit", "exit_code": 1}
            source["output"] = [{"stdout": "", "stderr": text, "outcome": outcome}]
        elif kind == "apply_patch_call":
            source.update(status="failed", output=text)
        else:
            source["output"] = text
        return Message("tool", text, tool_call_id=call.id, id=message_id, source=source)

    def outputs(self, message: Message) -> Sequence[tuple[str, str]]:
        return ((message.tool_call_id or "", message.text),) if message.role == "tool" else ()

    def map_outputs(self, message: Message, change: ChangeOutput) -> Message:
        source = message.source or {}
        output = source.get("output")
        call_id = message.tool_call_id or ""
        changed: Any = output
        if isinstance(output, str):
            changed = change(call_id, output)
        elif source.get("type") == "shell_call_output" and isinstance(output, list):
            changed = [_changed_run(run, call_id, change) for run in output]
        elif texts := _text_parts(output):
            joined = "\n".join(texts)
            text = change(call_id, joined)
            others = [part for part in output or [] if part.get("type") not in _TEXT_PARTS]
            changed = output if text == joined else [{"type": "input_text", "text": text}, *others]
        # What is left is a screenshot or a structured result: nothing we may cut.
        if changed == output:
            return message
        return replace(self.decode({**source, "output": changed}, 0), meta=message.meta, id=message.id)

    def without_outputs(self, message: Message, call_ids: Collection[str]) -> Message | None:
        return None if set(message.answers) <= set(call_ids) else message


def _changed_run(run: Any, call_id: str, change: ChangeOutput) -> Any:
    """What one command of a shell wrote, changed."""
    if not isinstance(run, Mapping):
        return run
    return {**run, **{name: change(call_id, run[name]) for name in ("stdout", "stderr") if run.get(name)}}


def _text_parts(output: Any) -> list[str]:
    if not isinstance(output, list):
        return []
    return [
        part["text"]
        for part in output
        if isinstance(part, Mapping) and part.get("type") in _TEXT_PARTS and isinstance(part.get("text"), str)
    ]


def _call(item: Mapping[str, Any], index: int) -> Message:
    kind = item["type"]
    call_id = item.get("id") if kind == "mcp_approval_request" else item.get("call_id") or item.get("id")
    by_provider = kind == "tool_search_call" and not item.get("call_id")
    if not isinstance(call_id, str) or not call_id:
        if by_provider:
            return Message("assistant", _compact_json(item, drop=("type",)), kind="opaque", source=item)
        raise MalformedMessage(index, f"is a {kind} without a call_id")
    arguments = item.get("arguments", item.get("input"))
    if not isinstance(arguments, str):
        arguments = _compact_json(item, drop=("type", "id", "call_id", "status", "name"))
    name = str(item.get("name") or kind)
    return Message(
        "assistant", "", tool_calls=(ToolCall(call_id, name, arguments, needs_output=not by_provider),), source=item
    )


def _output(item: Mapping[str, Any], index: int) -> Message:
    kind = item["type"]
    call_id = item.get("approval_request_id") if kind == "mcp_approval_response" else item.get("call_id")
    if call_id is None and kind == "local_shell_call_output":
        call_id = item.get("id")
    if not isinstance(call_id, str) or not call_id:
        if kind == "tool_search_output":
            return Message("assistant", _compact_json(item, drop=("type",)), kind="opaque", source=item)
        raise MalformedMessage(index, f"is a {kind} without a call_id")
    output = item.get("output")
    extra = 0
    if isinstance(output, str):
        text = output
    elif texts := _text_parts(output):
        text = "\n".join(texts)
        extra = IMAGE_TOKENS * (len(output) - len(texts)) if isinstance(output, list) else 0
    elif isinstance(output, Mapping) and "image_url" in output:
        text, extra = "", IMAGE_TOKENS
    else:
        text = _compact_json(item, drop=("type", "id", "call_id", "status"))
    return Message("tool", text, tool_call_id=call_id, extra_tokens=extra, source=item)


def _compact_json(item: Mapping[str, Any], *, drop: tuple[str, ...]) -> str:
    rest = {key: value for key, value in item.items() if key not in drop}
    return json.dumps(rest, ensure_ascii=False, separators=(",", ":"), default=str) if rest else ""
