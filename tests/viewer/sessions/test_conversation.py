"""Messages of spans as a conversation, and the line that follows a span's title."""

from __future__ import annotations

import json
from typing import Any

import pytest

from viewer.chat import ChatMessage
from viewer.sessions.conversation import conversation_of
from viewer.sessions.lines import format_arguments, line_of
from viewer.sessions.spans import SpanRow

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Where is the invoice?"}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"type": "function", "function": {"name": "find", "arguments": '{"id": 7}'}}],
    },
    {"role": "tool", "content": "in the archive"},
]
RESPONSES = [
    {"role": "system", "content": "Be brief."},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Where is the invoice?"}]},
    {"type": "function_call", "name": "find", "arguments": '{"id": 7}', "call_id": "c"},
    {"type": "function_call_output", "call_id": "c", "output": "in the archive"},
]
ANTHROPIC = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Where is the invoice?"},
    {"role": "assistant", "content": [{"type": "tool_use", "name": "find", "input": {"id": 7}}]},
    {"role": "tool", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "in the archive"}]}]},
]
PARTS = [
    {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
    {"role": "user", "parts": [{"type": "text", "content": "Where is the invoice?"}]},
    {"role": "assistant", "parts": [{"type": "tool_call", "name": "find", "arguments": {"id": 7}}]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "response": "in the archive"}]},
]


def texts(messages: list[ChatMessage]) -> list[tuple[str, str]]:
    return [
        (message.role, part.signature if part.kind == "call" else part.text)
        for message in messages
        for part in message.parts
    ]


@pytest.mark.parametrize("messages", [CHAT, RESPONSES, ANTHROPIC, PARTS])
@pytest.mark.parametrize("wrap", [lambda value: value, json.dumps, lambda value: {"messages": value}])
def test_every_format_is_the_same_conversation(messages: Any, wrap: Any) -> None:
    assert texts(conversation_of("generation", "gpt-5", {}, {"input": wrap(messages)})) == [
        ("system", "Be brief."),
        ("user", "Where is the invoice?"),
        ("assistant", "find(id=7)"),
        ("tool", "in the archive"),
    ]


def test_attributes_of_tracers_are_a_conversation() -> None:
    data = {
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": "Be brief.",
        "gen_ai.prompt.1.role": "user",
        "gen_ai.prompt.1.content": "Hello",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "Hi",
    }
    assert texts(conversation_of("generation", "chat", data, None)) == [
        ("system", "Be brief."),
        ("user", "Hello"),
        ("assistant", "Hi"),
    ]


def test_tool_call_and_output_are_two_messages_and_unknown_content_is_json() -> None:
    payload = {"arguments": {"path": "a.py"}, "output": {"lines": 3}}
    call, result = conversation_of("tool", "read_file", {}, payload)
    assert call.parts[0].signature == 'read_file(path="a.py")'
    assert json.loads(result.parts[0].text) == {"lines": 3}
    (unknown,) = conversation_of("span", "x", {}, [{"anything": 1}])
    assert json.loads(unknown.parts[0].text) == {"anything": 1}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ('{"query": "grid storage"}', '("grid storage")'),
        ('{"path": "a.py", "limit": 3}', '(path="a.py", limit=3)'),
        ("plain text\nin two lines", '("plain text in two lines")'),
        ("{}", "()"),
        ('{"text": "' + "x" * 3_000, '("{"text": "' + "x" * 49 + '…")'),
        (None, ""),
    ],
)
def test_arguments_fit_into_a_row(arguments: str | None, line: str) -> None:
    assert format_arguments(arguments) == line


def test_line_of_a_warning_is_its_message() -> None:
    span = SpanRow(
        "t", "s", None, "compact.warning", "compact.warning", "ok", None, None, None, 1, {"message": "Too large."}
    )
    assert line_of(span, None) == "Too large."
