"""Find what a decision was based on and what it led to: the call before it and the result after it.

Both are clipped excerpts of the messages, and empty if the messages contain none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from compact.messages import Message, ToolCall
from compact.reading.blocks import clip, collapse_whitespace, describe_call, output_lines, prose_blocks
from compact.reading.lines.line_classifier import is_error

_MAX_CHARS: Final = 100  # A decision log is scanned quickly, and the record below it has the details.
_MAX_DISTANCE: Final = 6  # messages to look at in each direction
_END_CHARS: Final = 4_000  # Only both ends of a long result are read, because outcomes are reported there.


class DecisionContext(NamedTuple):
    """The inputs and outputs of one decision."""

    inputs: str = ""
    outputs: str = ""


class DecisionContexts:
    """Looks up the calls and results around a position in a conversation, within the same turn."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._calls: dict[str, ToolCall] = {}
        # For each position: the index of the last request and call before it, and of the next result after it, or -1.
        self._last_request: list[int] = []
        self._last_call: list[int] = []
        self._next_result: list[int] = []
        self._contexts: dict[int, DecisionContext] = {}
        self._scan()

    def at(self, position: int) -> DecisionContext:
        """Return the context of a decision in the message at this position."""
        if not 0 <= position < len(self._messages):
            return DecisionContext()
        context = self._contexts.get(position)
        if context is None:
            context = self._contexts[position] = self._find(position)
        return context

    def _scan(self) -> None:
        request = call = -1
        for index, message in enumerate(self._messages):
            if _is_request(message):
                request, call = index, -1
            self._last_request.append(request)
            self._last_call.append(call)
            if message.tool_calls:
                call = index
                self._calls.update((tool_call.id, tool_call) for tool_call in message.tool_calls)
        result = -1
        for index in range(len(self._messages) - 1, -1, -1):
            self._next_result.append(result)
            message = self._messages[index]
            if _is_request(message):
                result = -1
            elif _is_result(message):
                result = index
        self._next_result.reverse()

    def _find(self, position: int) -> DecisionContext:
        call, request, result = self._last_call[position], self._last_request[position], self._next_result[position]
        inputs = ""
        if request == position:
            inputs = clip(self._statement_before(position), _MAX_CHARS)
        elif call >= 0:
            line, *_ = describe_call(self._messages[call].tool_calls[-1])
            inputs = clip(collapse_whitespace(line), _MAX_CHARS)
        elif request >= 0:
            first_line = next((lines[0] for lines, _ in prose_blocks(self._messages[request].text)), "")
            inputs = clip(first_line, _MAX_CHARS)
        if result < 0 and call >= 0:
            # No call followed in this turn, so the decision is about the result of the previous call.
            result = self._next_result[call]
        outputs = self._outcome(self._messages[result]) if result >= 0 else self._reply_after(position)
        return DecisionContext(inputs, outputs)

    def _statement_before(self, position: int) -> str:
        """Return what the assistant said last before a user's message."""
        for message in reversed(self._messages[max(0, position - _MAX_DISTANCE) : position]):
            if message.role == "assistant" and (blocks := prose_blocks(message.text)):
                return blocks[-1][0][-1]
            if _is_request(message):
                break
        return ""

    def _reply_after(self, position: int) -> str:
        """Return the next call or else the next statement of the assistant in this turn."""
        statement = ""
        for message in self._messages[position + 1 : position + 1 + _MAX_DISTANCE]:
            if _is_request(message):
                break
            if message.tool_calls:
                return clip(collapse_whitespace(describe_call(message.tool_calls[0])[0]), _MAX_CHARS)
            if not statement and (blocks := prose_blocks(message.text)):
                statement = blocks[0][0][0]
        own = self._messages[position].tool_calls
        if own:
            return clip(collapse_whitespace(describe_call(own[0])[0]), _MAX_CHARS)
        return clip(statement, _MAX_CHARS)

    def _outcome(self, result: Message) -> str:
        call = self._calls.get(result.answers[0]) if result.answers else None
        name = call.name if call else result.name or ""
        is_command = call is not None and describe_call(call)[1] == "command"
        content = _both_ends(result.text)
        text = _json_fields(content) or _key_line(content, is_command=is_command)
        return clip(f"{name} → {text}" if name and text else text, _MAX_CHARS)


def _is_result(message: Message) -> bool:
    return message.role == "tool" or bool(message.answers)


def _is_request(message: Message) -> bool:
    return message.role == "user" and not message.answers


def _both_ends(text: str) -> str:
    return text if len(text) <= 2 * _END_CHARS else f"{text[:_END_CHARS]}\n{text[-_END_CHARS:]}"


def _json_fields(text: str) -> str:
    """Return the scalar fields of a JSON object as `key=value`, as many as fit."""
    if not text.lstrip().startswith("{"):
        return ""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    fields: list[str] = []
    for key, value in data.items():
        if isinstance(value, dict | list) or value is None or value == "":
            continue
        field = f"{key}={collapse_whitespace(value) if isinstance(value, str) else json.dumps(value)}"
        if fields and len(", ".join([*fields, field])) > _MAX_CHARS:
            break
        fields.append(field)
    return ", ".join(fields)


def _key_line(text: str, *, is_command: bool) -> str:
    """Return the first error, or else the last line of a command's output or the first line of any other output."""
    lines = output_lines(text) or ([text.strip()] if text.strip() else [])
    if not lines:
        return ""
    return collapse_whitespace(next(filter(is_error, lines), lines[-1 if is_command else 0]))
