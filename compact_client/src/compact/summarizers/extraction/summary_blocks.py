"""Blocks of conversations that contain earlier summaries.

An earlier summary contributes its typed entries instead of its rendered text, so that its lines can be selected again
unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar

from compact.messages import Message
from compact.summarizers.extraction.blocks import Block, LineKind, read_blocks
from compact.summarizers.extraction.line_classifier import spoken_field
from compact.summary.entries import Entity, Entry, Note, Record
from compact.summary.renderer import SHOWN, entry_lines
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
    entries = [(name, entry) for summary in summaries for name in READING_ORDER for entry in summary.entries_of(name)]
    for name, entry in sorted(entries, key=lambda item: item[1].order):
        yield from _entry_blocks(name, entry)


def reserve_blocks(summary: StructuredSummary) -> Iterator[Block]:
    """Yield the lines of a summary, together with those it had no room for."""
    return summary_blocks(summary, *([summary.reserve] if summary.reserve is not None else ()))


def earlier_blocks(summary: StructuredSummary) -> Iterator[Block]:
    """Yield the lines of a summary that precedes the messages, and those it had no room for."""
    for block in reserve_blocks(summary):
        yield block._replace(position=EARLIER_POSITION)


def _entry_blocks(name: str, entry: Entry) -> Iterator[Block]:
    line, kind = _first_line(entry), _entry_kind(name, entry)
    field = spoken_field(line) if name == "facts" and kind == "user" else name
    parent = entry.parent if isinstance(entry, Record) else ""
    yield Block((line,), kind, entry.sources, entry.order, entry=entry, field=field, parent=parent)
    if excerpts := getattr(entry, "excerpts", ()):
        excerpt_kind: LineKind = "code" if name == "files" else "output"
        yield Block(excerpts, excerpt_kind, entry.sources, entry.order, line, field="outputs")


def _entry_kind(name: str, entry: Entry) -> LineKind:
    if isinstance(entry, Note) and name in ("facts", "errors") and entry.role:
        return _ROLE_KINDS.get(entry.role, "prose")
    if isinstance(entry, Entity) and entry.role.startswith(SHOWN):
        return "output"
    return _FIELD_KINDS.get(name, "prose")


def _first_line(entry: Entry) -> str:
    return entry.name if isinstance(entry, Entity) else entry_lines(entry)[0].removeprefix("- ")
