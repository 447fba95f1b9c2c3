"""Blocks of messages and of earlier summaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

from compact.messages import Message
from compact.summarizers.extraction.blocks import Block, Kind, read_blocks
from compact.summary.entries import Entity, Entry, Note
from compact.summary.renderer import SHOWN, entry_lines
from compact.summary.structured_summary import READING_ORDER, StructuredSummary

_LINE_KINDS: Final[dict[str, Kind]] = {
    "current_task": "user",
    "goals": "user",
    "constraints": "user",
    "requests": "user",
    "files": "edit",
    "commands": "command",
    "tool_outcomes": "call",
}
_ROLE_KINDS: Final[dict[str, Kind]] = {"user": "user", "tool": "output", "code": "code"}


class ParsedMessages(Sequence[Message]):
    """Messages that are read once, however many ask for their lines."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = tuple(messages)

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, place: Any) -> Any:
        return self._messages[place]

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        return tuple(_message_blocks(self._messages))


def blocks_of(messages: Sequence[Message]) -> Sequence[Block]:
    """The lines of messages, read now unless they were read before."""
    return messages.blocks if isinstance(messages, ParsedMessages) else tuple(_message_blocks(messages))


def _message_blocks(messages: Sequence[Message]) -> Iterator[Block]:
    """Lines of messages; an earlier summary among them gives its own entries, not a reading of its text."""
    for index, message in enumerate(messages):
        earlier = StructuredSummary.parse(message.text) if message.is_summary else None
        if earlier is None:
            continue
        # Rare: at most one earlier summary stands in a history, so the slices are taken once or twice.
        yield from read_blocks(messages[:index])
        for block in summary_blocks(earlier):
            yield block._replace(position=index, sources=block.sources or ((message.id,) if message.id else ()))
        for block in _message_blocks(messages[index + 1 :]):
            yield block._replace(position=block.position + index + 1)
        return
    yield from read_blocks(messages)


def summary_blocks(summary: StructuredSummary) -> Iterator[Block]:
    """The lines of a summary, each with its entry, so that they can compete with new ones as they stand."""
    found: list[tuple[int, str, Entry]] = []
    for name in READING_ORDER:
        value = getattr(summary, name)
        entries = ([value] if value is not None else []) if name == "current_task" else value
        found += [(entry.order, name, entry) for entry in entries]
    found.sort(key=lambda item: item[0])
    for order, name, entry in found:
        yield from _entry_blocks(order, name, entry)


def _entry_blocks(order: int, name: str, entry: Entry) -> Iterator[Block]:
    head = _head_text(entry)
    kind = _LINE_KINDS.get(name, "prose")
    if isinstance(entry, Note) and name == "facts" and entry.role:
        kind = _ROLE_KINDS.get(entry.role, "prose")
    elif isinstance(entry, Entity) and entry.role.startswith(SHOWN):
        kind = "output"
    yield Block((head,), kind, entry.sources, order, entry=entry, field=name)
    if excerpts := getattr(entry, "excerpts", ()):
        excerpt_kind: Kind = "code" if name == "files" else "output"
        yield Block(excerpts, excerpt_kind, entry.sources, order, head, field="outputs")


def _head_text(entry: Entry) -> str:
    if isinstance(entry, Entity):
        return entry.name
    line = entry_lines(entry)[0]
    return line.removeprefix("- ")
