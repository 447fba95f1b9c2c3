"""Atomic units: what is kept or removed whole.

A unit is reasoning, the message or calls it led to, and every output of those calls, wherever they stand. No
strategy, renderer or fallback takes half of one; an item nobody knows stays with its neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from compact.messages import Message

UnitKind = Literal["user", "assistant", "tool", "context"]


@dataclass(frozen=True, slots=True)
class Unit:
    """Places in a list of messages that belong together; `pairs` is how many calls it holds."""

    indices: tuple[int, ...]
    kind: UnitKind
    pairs: int = 0

    @property
    def first(self) -> int:
        return self.indices[0]

    @property
    def last(self) -> int:
        return self.indices[-1]


class _Builder:
    __slots__ = ("calls", "has_reasoning", "indices", "is_open", "merged_into")

    def __init__(self, index: int) -> None:
        self.indices = [index]
        self.calls = 0
        self.has_reasoning = False
        self.is_open = True
        self.merged_into: _Builder | None = None


def group_units(messages: Sequence[Message]) -> list[Unit]:
    """The units of a conversation, in the order in which they begin."""
    builders: list[_Builder] = []
    waiting: dict[str, list[_Builder]] = {}
    answered: dict[str, _Builder] = {}
    leading_opaque: list[int] = []
    for index, message in enumerate(messages):
        last = _root(builders[-1]) if builders else None
        if message.answers:
            target = _answering(message, waiting, answered)
            if target is None:
                builders.append(_closed(index))
            else:
                target.indices.append(index)
                target.is_open = False
                if last is not None:
                    last.is_open = False
            continue
        if message.kind == "opaque":
            if last is None:
                leading_opaque.append(index)
            else:
                last.indices.append(index)
            continue
        if message.role == "tool":
            # Document 000's Message has no call id: the output belongs to the assistant message before it.
            if last is not None and messages[last.indices[0]].role == "assistant":
                last.indices.append(index)
                last.calls += 1
                last.is_open = False
            else:
                builders.append(_closed(index))
            continue
        if _continues(message, last):
            builder = last
            assert builder is not None
            builder.indices.append(index)
        else:
            builder = _Builder(index)
            builder.is_open = message.role == "assistant"
            builders.append(builder)
        builder.has_reasoning = builder.has_reasoning or message.kind == "reasoning"
        for call in message.tool_calls:
            builder.calls += 1
            if call.needs_output:
                waiting.setdefault(call.id, []).append(builder)
    if leading_opaque:
        if builders:
            _root(builders[0]).indices[:0] = leading_opaque
        else:
            builders.append(_Builder(leading_opaque[0]))
            builders[0].indices = leading_opaque
    return [_finish(builder, messages) for builder in builders if builder.merged_into is None]


def _continues(message: Message, last: _Builder | None) -> bool:
    """Whether an assistant item belongs to the response that the last unit began."""
    if message.role != "assistant" or last is None or not last.is_open:
        return False
    if message.kind == "sealed":
        return False
    if last.has_reasoning:
        return True
    return bool(message.tool_calls) and last.calls > 0


def _answering(message: Message, waiting: dict[str, list[_Builder]], answered: dict[str, _Builder]) -> _Builder | None:
    target: _Builder | None = None
    for call_id in message.answers:
        queue = waiting.get(call_id)
        if queue:
            found = _root(queue.pop(0))
            answered[call_id] = found
        elif call_id in answered:
            found = _root(answered[call_id])
        else:
            continue
        if target is None:
            target = found
        elif target is not found:
            # One message answers the calls of two units: they are one from here on.
            target.indices.extend(found.indices)
            target.calls += found.calls
            found.merged_into = target
    return target


def _root(builder: _Builder) -> _Builder:
    while builder.merged_into is not None:
        builder = builder.merged_into
    return builder


def _closed(index: int) -> _Builder:
    builder = _Builder(index)
    builder.is_open = False
    return builder


def _finish(builder: _Builder, messages: Sequence[Message]) -> Unit:
    indices = tuple(sorted(builder.indices))
    roles = [messages[index].role for index in indices]
    kind: UnitKind
    if builder.calls or "tool" in roles:
        kind = "tool"
    elif "user" in roles:
        kind = "user"
    elif "assistant" in roles:
        kind = "assistant"
    else:
        kind = "context"
    return Unit(indices, kind, builder.calls)
