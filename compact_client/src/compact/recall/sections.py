"""Split the text of a message into sections of a few whole lines or sentences. Pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from compact.messages import Message
from compact.reading.call_arguments import read_arguments

SECTION_CHARS: Final = 300
_MAX_CONTEXT_SECTIONS: Final = 6
_SENTENCE_END: Final = re.compile(r"[.!?…][\"')\]]*\s+|[。！？]")
# The best places to split one long sentence, such as JSON without line breaks.
_BREAKS: Final = ("}, ", "},", "; ", ", ", ",", " ")
_JSON: Final = json.JSONEncoder(ensure_ascii=False, default=str)


@dataclass(slots=True)
class Source:
    """A message or artifact in the index."""

    id: str
    role: str
    text: str
    turn: int = 0
    time: str | None = None
    context: str = ""
    """Text that tells what the message is about, such as the arguments of the call that it answers."""


class Section(NamedTuple):
    """A part of a source that a search can find."""

    row: int
    source: Source
    start: int
    end: int
    context: str
    """The text that is searched with this section but is not shown."""

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]


def split_source(source: Source, row: int) -> list[Section]:
    """Return the sections of a source, the first one at a row."""
    context = f"{source.id} {source.context}"
    return [
        Section(row + place, source, start, end, context if place < _MAX_CONTEXT_SECTIONS else "")
        for place, (start, end) in enumerate(split_text(source.text))
    ]


def searchable_text(message: Message) -> str:
    """Return everything that a message says: its text, and the names and arguments of its tool calls."""
    parts = [message.text] if message.text else []
    parts += [f"{call.name}\n{_readable(call.arguments)}" for call in message.tool_calls]
    return "\n".join(parts)


def split_text(text: str, size: int = SECTION_CHARS) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each part of at most `size` characters: whole lines, else whole sentences."""
    start, stop = 0, len(text)
    while stop - start > size:
        newline = text.rfind("\n", start + size // 3, start + size)
        end = newline + 1 if newline >= 0 else _break(text, start, start + size)
        yield start, end
        start = end
    if start < stop:
        yield start, stop


def _break(text: str, start: int, limit: int) -> int:
    sentences = [match.end() for match in _SENTENCE_END.finditer(text, start + (limit - start) // 3, limit)]
    if sentences:
        return sentences[-1]
    for mark in _BREAKS:
        index = text.rfind(mark, start + (limit - start) // 2, limit)
        if index >= 0:
            return index + len(mark)
    return limit


def _readable(arguments: str) -> str:
    """Return the arguments of a call with one line per field, and with the line breaks of their texts."""
    fields = read_arguments(arguments)
    if not isinstance(fields, dict):
        return arguments
    values = {name: value if isinstance(value, str) else _JSON.encode(value) for name, value in fields.items()}
    return "\n".join(f"{name}: {value}" for name, value in values.items())
