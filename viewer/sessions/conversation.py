"""The messages of a span as a conversation, whatever format its tracer sent them in.

Understands chat messages, Responses items, Anthropic content blocks, OpenTelemetry parts, and the flattened attributes
of Traceloop and OpenInference. A message in another format is shown as JSON. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from viewer.sessions.lines import format_arguments

_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "function": "tool", "developer": "developer"}
_SYSTEM = ("system", "instructions", "system_prompt", "gen_ai.system_instructions")
_INPUT = ("messages", "input", "prompt", "gen_ai.input.messages", "ai.prompt.messages", "ai.prompt", "input.value")
_OUTPUT = (
    *("output", "response", "completion", "choices", "gen_ai.output.messages"),
    *("ai.response.text", "ai.response.toolCalls", "output.value"),
)
_ARGUMENTS = ("arguments", "input", "tool.arguments", "gen_ai.tool.call.arguments", "ai.toolCall.args", "input.value")
_RESULT = ("output", "result", "gen_ai.tool.call.result", "ai.toolCall.result", "output.value")
_ERROR = ("error", "exception", "exception.message")
# `gen_ai.prompt.0.content`, `llm.input_messages.0.message.content`
_FLAT = re.compile(
    r"^(?P<side>gen_ai\.(?:prompt|completion)|llm\.(?:input|output)_messages)\.(?P<index>\d{1,4})\."
    r"(?:message\.)?(?P<name>role|content|name)$"
)
_CALL_TYPES = {"function_call", "tool_call", "tool_use", "tool-call", "custom_tool_call"}
_RESULT_TYPES = {"function_call_output", "tool_result", "tool_call_response", "tool-result", "custom_tool_call_output"}


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a message: `text`, `call`, `result` or `data`."""

    kind: str
    text: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message as a reader sees it. `span` is the key of the span that contains it, if that is not the shown one."""

    role: str
    parts: list[Part] = field(default_factory=list)
    span: str = ""

    @property
    def label(self) -> str:
        return {"assistant": "Assistant", "tool": "Tool", "": "Data"}.get(self.role, self.role.capitalize()[:40])


def conversation_of(kind: str, name: str, data: Mapping[str, Any], payload: Any) -> list[ChatMessage]:
    """Return the messages of a span: its prompt and its answer, or a tool call and its result."""
    content = payload if isinstance(payload, Mapping) else {}
    if payload is not None and not isinstance(payload, Mapping):
        return read_messages(payload, "")
    values = {**data, **content}
    if kind == "tool":
        return _tool_call(name, values)
    messages = [message for key in _SYSTEM if key in values for message in read_messages(values[key], "system")]
    messages += [message for key in _INPUT if key in values for message in read_messages(values[key], "user")]
    messages += _flat_messages(data)
    messages += [message for key in _OUTPUT if key in values for message in read_messages(values[key], "assistant")]
    return messages + _errors(content)


def read_messages(value: Any, role: str) -> list[ChatMessage]:
    """Return the messages in a value: a text, a message, a list of messages, or JSON of one of them."""
    value = _from_json(value)
    if value in (None, "", [], {}):
        return []
    if isinstance(value, list):
        if all(isinstance(item, Mapping) and _is_part(item) for item in value):
            return [ChatMessage(role, _parts(value))]
        return [message for item in value for message in read_messages(item, role)]
    if isinstance(value, Mapping):
        return _read_mapping(value, role)
    return [ChatMessage(role, [Part("text", str(value))])]


def _read_mapping(value: Mapping[str, Any], role: str) -> list[ChatMessage]:
    if isinstance(value.get("messages"), list):
        return read_messages(value["messages"], role)
    if isinstance(value.get("choices"), list):
        return [item for choice in value["choices"] for item in read_messages(choice, role)]
    if isinstance(value.get("message"), Mapping):
        return read_messages(value["message"], role)
    if value.get("type") in _CALL_TYPES | _RESULT_TYPES:
        part = _part(value)
        return [ChatMessage("assistant" if part.kind == "call" else "tool", [part])]
    own = str(value.get("role") or (role if "content" in value or "parts" in value else ""))
    if not own:
        return [ChatMessage(role, [Part("data", _pretty(value))])]
    content = value.get("content", value.get("parts", value.get("text")))
    parts = _parts(content) if content not in (None, "") else []
    parts += [
        _part({"type": "tool_call", **call}) for call in value.get("tool_calls") or [] if isinstance(call, Mapping)
    ]
    known = _ROLES.get(own, own)
    if known == "tool":
        parts = [Part("result", part.text, str(value.get("name", ""))) for part in parts]
    return [ChatMessage(known, parts or [Part("data", _pretty(value))])]


def _is_part(item: Mapping[str, Any]) -> bool:
    return "type" in item and "role" not in item and item.get("type") != "message"


def _parts(content: Any) -> list[Part]:
    content = _from_json(content)
    if isinstance(content, list):
        return [_part(item) if isinstance(item, Mapping) else Part("text", str(item)) for item in content]
    return [_part(content)] if isinstance(content, Mapping) else [Part("text", str(content))]


def _part(item: Mapping[str, Any]) -> Part:
    kind = item.get("type")
    if kind in _CALL_TYPES or (kind == "function" and "function" in item):
        function = item["function"] if isinstance(item.get("function"), Mapping) else item
        name = str(function.get("name") or item.get("toolName") or "tool")
        arguments: Any = next(
            (function[key] for key in ("arguments", "input", "args") if function.get(key) is not None), {}
        )
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        return Part("call", _pretty(_from_json(text)), f"{name}{format_arguments(text) or '()'}")
    if kind in _RESULT_TYPES:
        result = next((item[key] for key in ("output", "content", "response", "result") if key in item), "")
        return Part("result", _text_of(result), str(item.get("name") or item.get("toolName") or ""))
    for key in ("text", "content", "thinking", "reasoning"):
        if isinstance(item.get(key), str):
            return Part("text", item[key])
    return Part("data", _pretty(item))


def _tool_call(name: str, values: Mapping[str, Any]) -> list[ChatMessage]:
    messages = []
    arguments = next((values[key] for key in _ARGUMENTS if values.get(key) not in (None, "")), None)
    if arguments is not None:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        call = Part("call", _pretty(_from_json(text)), f"{name}{format_arguments(text)}")
        messages.append(ChatMessage("assistant", [call]))
    result = next((values[key] for key in _RESULT if values.get(key) not in (None, "")), None)
    if result is not None:
        messages.append(ChatMessage("tool", [Part("result", _text_of(result), name)]))
    return messages + _errors(values)


def _errors(values: Mapping[str, Any]) -> list[ChatMessage]:
    return [ChatMessage("error", [Part("text", _text_of(values[key]))]) for key in _ERROR if values.get(key)]


def _flat_messages(data: Mapping[str, Any]) -> list[ChatMessage]:
    """Return messages that a tracer flattened into attributes."""
    messages: dict[tuple[str, int], dict[str, Any]] = {}
    for key, value in data.items():
        if match := _FLAT.match(key):
            messages.setdefault((match["side"], int(match["index"])), {})[match["name"]] = value
    # Prompts sort before completions if the sides are compared by what they mean.
    order = sorted(messages, key=lambda item: ("completion" in item[0] or "output" in item[0], item[1]))
    return [
        message
        for key in order
        for message in read_messages({"role": "assistant" if "output" in key[0] else "user", **messages[key]}, "user")
    ]


def _text_of(value: Any) -> str:
    value = _from_json(value)
    if isinstance(value, list) and all(
        isinstance(item, Mapping) and isinstance(item.get("text"), str) for item in value
    ):
        return "\n".join(item["text"] for item in value)
    return value if isinstance(value, str) else _pretty(value)


def _from_json(value: Any) -> Any:
    if not isinstance(value, str) or value[:1] not in {"{", "["}:
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _pretty(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def of_spans(spans: Iterable[tuple[str, list[ChatMessage]]]) -> list[ChatMessage]:
    """Join the messages of several spans, each with the key of its span."""
    return [ChatMessage(message.role, message.parts, key) for key, messages in spans for message in messages]
