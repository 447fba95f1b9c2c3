"""Group messages into units: the smallest parts that compaction keeps or removes.

A unit is a response with its reasoning, its tool calls, and all outputs of those calls, wherever they appear, and all
messages with a part of the same server tool or program. An item of an unknown type belongs to the unit before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from compact.messages import Message

UnitKind = Literal["user", "assistant", "tool", "context"]


@dataclass(frozen=True, slots=True)
class Unit:
    """Indices of messages that belong together."""

    indices: tuple[int, ...]
    kind: UnitKind
    pairs: int = 0
    """The number of tool calls."""

    @property
    def first(self) -> int:
        return self.indices[0]

    @property
    def last(self) -> int:
        return self.indices[-1]


def group_units(messages: Sequence[Message]) -> list[Unit]:
    """Return the units of a conversation, ordered by their first message."""
    grouper = _Grouper(messages)
    for index, message in enumerate(messages):
        if message.answers:
            grouper.add_output(index, message)
        elif message.kind == "opaque":
            grouper.add_opaque(index)
        elif message.role == "tool":
            grouper.add_output_without_id(index)
        else:
            grouper.add_message(index, message)
        if message.links:
            grouper.link(index, message.links)
    return grouper.finish()


class _Builder:
    """A unit under construction."""

    __slots__ = ("calls", "has_reasoning", "indices", "is_open", "merged_into")

    def __init__(self, index: int, *, is_open: bool = False) -> None:
        self.indices = [index]
        self.calls = 0
        self.has_reasoning = False
        self.is_open = is_open
        """True while further assistant items may belong to the same response."""
        self.merged_into: _Builder | None = None

    def accepts(self, message: Message) -> bool:
        """True if an assistant item belongs to the response that this unit contains."""
        if message.role != "assistant" or message.kind == "sealed" or not self.is_open:
            return False
        return self.has_reasoning or (bool(message.tool_calls) and self.calls > 0)

    def absorb(self, other: _Builder) -> None:
        """Take over the messages of another unit."""
        self.indices.extend(other.indices)
        self.calls += other.calls
        self.has_reasoning = self.has_reasoning or other.has_reasoning
        self.is_open = other.is_open
        other.merged_into = self

    def finish(self, messages: Sequence[Message]) -> Unit:
        indices = tuple(sorted(self.indices))
        roles = [messages[index].role for index in indices]
        kind: UnitKind
        if self.calls or "tool" in roles:
            kind = "tool"
        elif "user" in roles:
            kind = "user"
        elif "assistant" in roles:
            kind = "assistant"
        else:
            kind = "context"
        return Unit(indices, kind, self.calls)


class _Grouper:
    """Assigns messages to units in one pass."""

    __slots__ = ("_answered", "_builders", "_leading_opaque", "_linked", "_messages", "_pending")

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._builders: list[_Builder] = []
        self._pending: dict[str, list[_Builder]] = {}
        """Units with calls that have no output yet, by call id."""
        self._answered: dict[str, _Builder] = {}
        self._linked: dict[str, _Builder] = {}
        """Units with a part of a server tool or a program, by its id."""
        self._leading_opaque: list[int] = []

    def add_output(self, index: int, message: Message) -> None:
        """Add an output to the unit of its call."""
        last = self._last()
        unit = self._unit_of_calls(message.answers)
        if unit is None:
            self._builders.append(_Builder(index))
            return
        unit.indices.append(index)
        unit.is_open = False
        if last is not None:
            last.is_open = False

    def add_output_without_id(self, index: int) -> None:
        """Add an output to the assistant message before it. Document 000's Message has no call id."""
        last = self._last()
        if last is None or self._messages[last.indices[0]].role != "assistant":
            self._builders.append(_Builder(index))
            return
        last.indices.append(index)
        last.calls += 1
        last.is_open = False

    def add_opaque(self, index: int) -> None:
        last = self._last()
        (self._leading_opaque if last is None else last.indices).append(index)

    def add_message(self, index: int, message: Message) -> None:
        unit = self._last()
        if unit is not None and unit.accepts(message):
            unit.indices.append(index)
        else:
            unit = _Builder(index, is_open=message.role == "assistant")
            self._builders.append(unit)
        unit.has_reasoning = unit.has_reasoning or message.kind == "reasoning"
        for call in message.tool_calls:
            unit.calls += 1
            if call.needs_output:
                self._pending.setdefault(call.id, []).append(unit)

    def link(self, index: int, ids: Sequence[str]) -> None:
        """Merge the unit of a message with those that have the same ids."""
        owners = (_root(builder) for builder in reversed(self._builders))
        unit = next(owner for owner in owners if index in owner.indices)
        for link in ids:
            other = _root(self._linked.setdefault(link, unit))
            if other is not unit:
                other.absorb(unit)
                unit = other

    def finish(self) -> list[Unit]:
        if self._leading_opaque and not self._builders:
            self._builders.append(_Builder(self._leading_opaque.pop(0)))
        if self._leading_opaque:
            _root(self._builders[0]).indices += self._leading_opaque
        return [builder.finish(self._messages) for builder in self._builders if builder.merged_into is None]

    def _last(self) -> _Builder | None:
        return _root(self._builders[-1]) if self._builders else None

    def _unit_of_calls(self, call_ids: Sequence[str]) -> _Builder | None:
        """Return the unit of these calls. If they are in several units, merge those units."""
        unit: _Builder | None = None
        for call_id in call_ids:
            owner = self._owner(call_id)
            if owner is None or owner is unit:
                continue
            if unit is None:
                unit = owner
                continue
            unit.absorb(owner)
        return unit

    def _owner(self, call_id: str) -> _Builder | None:
        """Return the unit of a call: the newest one without an output, or the one that was answered last.

        Calls of a function may have the same id, and an earlier one may have been stopped.
        """
        if pending := self._pending.get(call_id):
            self._answered[call_id] = pending.pop()
        owner = self._answered.get(call_id)
        return None if owner is None else _root(owner)


def _root(builder: _Builder) -> _Builder:
    while builder.merged_into is not None:
        builder = builder.merged_into
    return builder
