"""Blocks of conversations that contain earlier summaries.

An earlier summary contributes its typed entries instead of its rendered text, so that its lines can be selected again
unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar

from compact.messages import Message
from compact.reading.blocks import Block, LineKind, read_blocks
from compact.reading.lines.line_classifier import spoken_field
from compact.summary.entries import Entity, Entry, Note, Record
from compact.summary.renderer import SHOWN, entry_line
from compact.summary.structured_summary import READING_ORDER, StructuredSummary

M = TypeVar("M", bound=Message)

_FIELD_KINDS: Final[dict[str, LineKind]] = {
    "current_task": "user",
    "goals": "user",
    "constraints": "user",
    "requests": "user",
    "files": "edit",
    "commands": "command",
    "records": "record",
    "tool_outcomes": "call",
}
_ROLE_KINDS: Final[dict[str, LineKind]] = {"user": "user", "tool": "output", "code": "code"}


EARLIER_POSITION: Final = -1  # of the lines of a summary that precedes the messages


class ParsedMessages(Sequence[M]):
    """Messages with cached blocks, so that several consumers parse them only once."""

    def __init__(self, messages: Sequence[M]) -> None:
        self._messages = tuple(messages)

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, index: Any) -> Any:
        return self._messages[index]

    def __iter__(self) -> Iterator[M]:
        return iter(self._messages)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        return tuple(_read_messages(self._messages))


def message_blocks(messages: Sequence[Message]) -> Sequence[Block]:
    """Return the blocks of messages, from the cache if they are `ParsedMessages`."""
    return messages.blocks if isinstance(messages, ParsedMessages) else tuple(_read_messages(messages))


def _read_messages(messages: Sequence[Message]) -> Iterator[Block]:
    for index, message in enumerate(messages):
        earlier = StructuredSummary.parse(message.text) if message.is_summary else None
        if earlier is None:
            continue
        # A history contains at most one or two earlier summaries, so slicing and recursion are cheap.
        yield from read_blocks(messages[:index])
        for block in summary_blocks(earlier):
            yield block._replace(position=index, sources=block.sources or ((message.id,) if message.id else ()))
        for block in _read_messages(messages[index + 1 :]):
            yield block._replace(position=block.position + index + 1)
        return
    yield from read_blocks(messages)


def summary_blocks(*summaries: StructuredSummary) -> Iterator[Block]:
    """Yield the lines of summaries, each with its entry, in chronological order."""
    for name, entry in _in_order(summaries):
        yield from _entry_blocks(name, entry, entry.order)


def reserve_blocks(summary: StructuredSummary) -> Iterator[Block]:
    """Yield the lines of a summary, together with those it had no room for."""
    return summary_blocks(*_with_reserve(summary))


def earlier_blocks(summary: StructuredSummary) -> Iterator[Block]:
    """Yield the lines of a summary that precedes the messages, and those it had no room for."""
    for name, entry in _in_order(_with_reserve(summary)):
        yield from _entry_blocks(name, entry, EARLIER_POSITION)


def _with_reserve(summary: StructuredSummary) -> list[StructuredSummary]:
    return [summary, summary.reserve] if summary.reserve is not None else [summary]


def _in_order(summaries: Iterable[StructuredSummary]) -> list[tuple[str, Entry]]:
    """Return the fields and entries of summaries in chronological order."""
    entries = [(name, entry) for summary in summaries for name in READING_ORDER for entry in summary.entries_of(name)]
    return sorted(entries, key=lambda item: item[1].order)


def _entry_blocks(name: str, entry: Entry, position: int) -> Iterator[Block]:
    line = entry.name if isinstance(entry, Entity) else entry_line(entry)
    kind = _entry_kind(name, entry)
    field = spoken_field(line) if name == "facts" and kind == "user" else name
    parent = entry.parent if isinstance(entry, Record) else ""
    yield Block((line,), kind, entry.sources, position, entry=entry, field=field, parent=parent)
    if excerpts := getattr(entry, "excerpts", ()):
        excerpt_kind: LineKind = "code" if name == "files" else "output"
        yield Block(excerpts, excerpt_kind, entry.sources, position, line, field="outputs")


def _entry_kind(name: str, entry: Entry) -> LineKind:
    if isinstance(entry, Note) and name in ("facts", "errors") and entry.role:
        return _ROLE_KINDS.get(entry.role, "prose")
    if isinstance(entry, Entity) and entry.role.startswith(SHOWN):
        return "output"
    return _FIELD_KINDS.get(name, "prose")
