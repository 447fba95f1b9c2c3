"""The messages of a span: a prompt and its answer, or a tool call and its result.

Finds the messages under the names that tracers use, in the payload or in the data. `compact.reading` reads them.
Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from compact.reading.parts import Content, Part, is_part

from viewer.chat import ChatMessage, parse_message

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


@dataclass(frozen=True, slots=True)
class SpanMessage:
    """A message, and the key of the span that contains it if that is not the shown one."""

    message: ChatMessage
    span: str = ""


def conversation_of(kind: str, name: str, data: Mapping[str, Any], payload: Any) -> list[ChatMessage]:
    """Return the messages of a span in order."""
    if payload is not None and not isinstance(payload, Mapping):
        return read_messages(payload, "")
    values = {**data, **(payload or {})}
    if kind == "tool":
        return _tool_call(name, values)
    messages = _read_all(values, _SYSTEM, "system") + _read_all(values, _INPUT, "user")
    messages += _flat_messages(data) + _read_all(values, _OUTPUT, "assistant")
    return messages + _read_all(payload or {}, _ERROR, "error")


def with_spans(spans: Iterable[tuple[str, list[ChatMessage]]]) -> list[SpanMessage]:
    """Join the messages of several spans, each with the key of its span."""
    return [SpanMessage(message, key) for key, messages in spans for message in messages]


def read_messages(value: Any, role: str) -> list[ChatMessage]:
    """Return the messages in a value: a text, a message, a list of messages, or JSON of one of them."""
    value = _from_json(value)
    if value in (None, "", [], {}):
        return []
    if isinstance(value, list):
        if all(isinstance(item, Mapping) and is_part(item) for item in value):
            return [parse_message({"role": role, "content": value})]
        return [message for item in value for message in read_messages(item, role)]
    if not isinstance(value, Mapping):
        return [parse_message({"role": role, "content": str(value)})]
    for key in ("messages", "choices", "message"):
        if isinstance(value.get(key), list | Mapping):
            return read_messages(value[key], role)
    message = parse_message(value)
    return [message if message.role else ChatMessage(role, message.parts)]


def _read_all(values: Mapping[str, Any], names: Iterable[str], role: str) -> list[ChatMessage]:
    return [message for name in names if name in values for message in read_messages(values[name], role)]


def _tool_call(name: str, values: Mapping[str, Any]) -> list[ChatMessage]:
    messages = []
    arguments = next((values[key] for key in _ARGUMENTS if values.get(key) not in (None, "")), None)
    if arguments is not None:
        messages.append(parse_message({"type": "tool_call", "name": name, "arguments": arguments}))
    result = next((values[key] for key in _RESULT if values.get(key) not in (None, "")), None)
    if result is not None:
        text = result if isinstance(result, str) else json.dumps(result, indent=2, ensure_ascii=False)
        messages.append(ChatMessage("tool", (Part(Content.RESULT, text, name),)))
    return messages + _read_all(values, _ERROR, "error")


def _flat_messages(data: Mapping[str, Any]) -> list[ChatMessage]:
    """Return messages that a tracer flattened into attributes. Answers come after prompts."""
    messages: dict[tuple[bool, int], dict[str, Any]] = {}
    for key, value in data.items():
        if match := _FLAT.match(key):
            is_answer = match["side"] in {"gen_ai.completion", "llm.output_messages"}
            role = "assistant" if is_answer else "user"
            messages.setdefault((is_answer, int(match["index"])), {"role": role})[match["name"]] = value
    return [parse_message(messages[key]) for key in sorted(messages)]


def _from_json(value: Any) -> Any:
    if not isinstance(value, str) or value[:1] not in {"{", "["}:
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
