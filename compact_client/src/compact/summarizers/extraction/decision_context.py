"""What a decision was made on and what came of it: the call before it and the result after it.

Both are stretches of the messages themselves, clipped; where the messages hold none, the text is empty.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from compact.messages import Message, ToolCall
from compact.summarizers.extraction.blocks import clip, describe_call, flat, output_lines, prose_blocks
from compact.summarizers.extraction.line_classifier import is_error

_CHARS: Final = 100  # a ledger is read at a glance; the record below it holds the rest
_ENDS_CHARS: Final = 4_000  # of a long result only the two ends are read: what came of it stands there


class Ground(NamedTuple):
    """The inputs and outputs of one decision."""

    inputs: str = ""
    outputs: str = ""


class Grounds:
    """Looks up, for a place in a conversation, what stood before and after it in the same turn."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._calls: dict[str, ToolCall] = {}
        self._asked: list[int] = []
        self._called: list[int] = []
        self._answered: list[int] = []
        self._known: dict[int, Ground] = {}
        self._read()

    def at(self, position: int) -> Ground:
        """The grounds of what the message at this place decided."""
        if not 0 <= position < len(self._messages):
            return Ground()
        found = self._known.get(position)
        if found is None:
            found = self._known[position] = self._find(position)
        return found

    def _read(self) -> None:
        """Note for each place the last ask and call before it and the next result after it; -1 where there is none."""
        asked = called = -1
        for place, message in enumerate(self._messages):
            if _is_ask(message):
                asked, called = place, -1
            self._asked.append(asked)
            self._called.append(called)
            if message.tool_calls:
                called = place
                self._calls.update((call.id, call) for call in message.tool_calls)
        answered = -1
        for place in range(len(self._messages) - 1, -1, -1):
            self._answered.append(answered)
            message = self._messages[place]
            if _is_ask(message):
                answered = -1
            elif _is_result(message):
                answered = place
        self._answered.reverse()

    def _find(self, position: int) -> Ground:
        called, asked, answered = self._called[position], self._asked[position], self._answered[position]
        inputs = ""
        if called >= 0:
            inputs = clip(flat(describe_call(self._messages[called].tool_calls[-1])[0]), _CHARS)
        elif asked >= 0:
            inputs = clip(next((lines[0] for lines, _ in prose_blocks(self._messages[asked].text)), ""), _CHARS)
        if answered < 0 and called >= 0:
            # Nothing was done after it in its turn: it speaks of what the call before it returned.
            answered = self._answered[called]
        return Ground(inputs, self._outcome(self._messages[answered]) if answered >= 0 else "")

    def _outcome(self, result: Message) -> str:
        call = self._calls.get(result.answers[0]) if result.answers else None
        name = call.name if call else result.name or ""
        kind = describe_call(call)[1] if call else "call"
        content = _ends(result.text)
        text = _key_fields(content) or _telling_line(content, is_command=kind == "command")
        return clip(f"{name} → {text}" if name and text else text, _CHARS)


def _is_result(message: Message) -> bool:
    return message.role == "tool" or bool(message.answers)


def _is_ask(message: Message) -> bool:
    return message.role == "user" and not message.answers


def _ends(text: str) -> str:
    return text if len(text) <= 2 * _ENDS_CHARS else f"{text[:_ENDS_CHARS]}\n{text[-_ENDS_CHARS:]}"


def _key_fields(text: str) -> str:
    """The plain values of a JSON object, as far as they fit."""
    if not text.lstrip().startswith("{"):
        return ""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    shown: list[str] = []
    for key, value in data.items():
        if isinstance(value, dict | list) or value is None or value == "":
            continue
        field = f"{key}={flat(value) if isinstance(value, str) else json.dumps(value)}"
        if shown and len(", ".join([*shown, field])) > _CHARS:
            break
        shown.append(field)
    return ", ".join(shown)


def _telling_line(text: str, *, is_command: bool) -> str:
    """The first error; else the end of what a command printed, or the beginning of what another tool returned."""
    lines = output_lines(text) or ([text.strip()] if text.strip() else [])
    if not lines:
        return ""
    return flat(next(filter(is_error, lines), lines[-1 if is_command else 0]))
