"""Split the text of a message into sections, and a section into chunks of a few whole lines. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from compact.messages import Message

SECTION_CHARS: Final = 700
CHUNK_CHARS: Final = 200
# The best places to split a long line, such as JSON without line breaks: after a record, a field, a sentence, a word.
_BREAKS: Final = ("}, ", "},", "; ", ". ", ", ", ",", " ")


def searchable_text(message: Message) -> str:
    """Return everything that a message says: its text, and the names and arguments of its tool calls."""
    parts = [message.text] if message.text else []
    parts += [f"{call.name}\n{_readable(call.arguments)}" for call in message.tool_calls]
    return "\n".join(parts)


def split_text(text: str, size: int, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each part of at most `size` characters, cut after a line if possible."""
    stop = len(text) if stop is None else stop
    while stop - start > size:
        newline = text.rfind("\n", start + size // 2, start + size)
        end = newline + 1 if newline >= 0 else _break(text, start, start + size)
        yield start, end
        start = end
    if start < stop:
        yield start, stop


def _break(text: str, start: int, limit: int) -> int:
    for mark in _BREAKS:
        index = text.rfind(mark, start + (limit - start) // 2, limit)
        if index >= 0:
            return index + len(mark)
    return limit


def _readable(arguments: str) -> str:
    """Return the arguments of a call with one line per field, and with the line breaks of their texts."""
    try:
        fields: Any = json.loads(arguments)
    except ValueError:
        return arguments
    if not isinstance(fields, dict):
        return arguments
    values = {name: value if isinstance(value, str) else _JSON.encode(value) for name, value in fields.items()}
    return "\n".join(f"{name}: {value}" for name, value in values.items())


_JSON: Final = json.JSONEncoder(ensure_ascii=False, default=str)
