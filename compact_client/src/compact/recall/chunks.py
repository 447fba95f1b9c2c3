"""Split the text of a message into chunks: a few whole lines, or a part of a very long line. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from compact.messages import Message

CHUNK_CHARS: Final = 240
# The best places to split a long line, such as JSON without line breaks: after a record, a field, a sentence, a word.
_BREAKS: Final = ("}, ", "},", "; ", ". ", ", ", ",", " ")


def searchable_text(message: Message) -> str:
    """Return everything that a message says: its text, and the names and arguments of its tool calls."""
    parts = [message.text] if message.text else []
    parts += [f"{call.name}\n{_readable(call.arguments)}" for call in message.tool_calls]
    return "\n".join(parts)


def chunk_spans(text: str, size: int = CHUNK_CHARS) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each chunk. Together they cover the text, apart from blank lines."""
    start = end = 0
    while end < len(text):
        newline = text.find("\n", end)
        line_end = len(text) if newline < 0 else newline + 1
        if line_end - start > size and end > start:
            yield start, end
            start = end
        while line_end - start > size:
            cut = _break(text, start, start + size)
            yield start, cut
            start = cut
        end = line_end
        if not text[start:end].strip():
            start = end
    if text[start:end].strip():
        yield start, end


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
