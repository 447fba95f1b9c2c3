"""Recognize the messages of a list that continues a branch without repeating its last list exactly.

The host may have changed its instructions, trimmed old messages, moved a cache mark or protected a message. A
recognized message keeps its id, so the plan continues to apply to it. Pure functions over lists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from compact.engine.session.continuation import is_instruction
from compact.engine.session.request import ListSnapshot, source_item, to_plain
from compact.messages import Message


@dataclass(frozen=True, slots=True)
class KnownItem:
    """An item that the branch knows: the id of its message, and whether the host shows it unchanged."""

    message_id: str
    is_unchanged: bool


def recognize_items(
    items: Sequence[Any], reference: ListSnapshot, start: int, size: int, history: Sequence[Message]
) -> list[KnownItem | None]:
    """Return what is known about each item. The first `size` messages are those of the reference from `start` on."""
    spoken = [index for index, item in enumerate(reference.items) if not is_instruction(item)][start : start + size]
    matched = iter(spoken)
    instructions = [message for message in history if is_instruction(message)]
    known: list[KnownItem | None] = []
    for item in items:
        if is_instruction(item):
            known.append(_take_instruction(item, instructions))
            continue
        index = next(matched, None)
        known.append(None if index is None else KnownItem(reference.ids[index], reference.is_unchanged(index, item)))
    return known


def merge_history(
    history: Sequence[Message], items: Sequence[Any], shown: Sequence[Message | None], known: Sequence[KnownItem | None]
) -> list[Message]:
    """Return the history with the host's instructions, the current form of each message, and the new messages.

    `shown` has the message of each item, or None for a summary or pointer. Messages that the host trimmed stay.
    """
    # Sorted by position in the history. An insertion stands before the message at its position, in the host's order.
    entries = {(index, 1, 0): message for index, message in enumerate(history) if not is_instruction(message)}
    anchor = end = len(history)
    first_spoken = len(list(takewhile(is_instruction, items)))
    for index, message, position in _placed_from_end(history, shown, known):
        is_told = is_instruction(items[index])
        if position is not None and (not is_told or _follows_ours(shown, index)):
            # An instruction after a message of ours: a layout moved it, and the host goes on with the list that it got.
            entries[position, 1, 0] = message
            anchor = anchor if is_told else position
        elif is_told:
            # Instructions at the front stay there, also if the plan hides the messages after them.
            entries[-1 if index < first_spoken else anchor, 0, index] = message
        else:
            # A message of ours that the host goes on with stays where it is. Others are new.
            entries[end if known[index] is None else anchor, 0, index] = message
    return [entries[place] for place in sorted(entries)]


def _placed_from_end(
    history: Sequence[Message], shown: Sequence[Message | None], known: Sequence[KnownItem | None]
) -> Iterator[tuple[int, Message, int | None]]:
    """Yield the messages of items, the last one first, with the index of the item and the position in the history."""
    positions = {message.id: index for index, message in enumerate(history)}
    for index in reversed(range(len(shown))):
        message, item = shown[index], known[index]
        if message is not None:
            yield index, message, positions.get(item.message_id) if item is not None else None


def _follows_ours(shown: Sequence[Message | None], index: int) -> bool:
    return index > 0 and shown[index - 1] is None


def visible_part(
    history: Sequence[Message], shown: Sequence[Message | None], absorbed_ids: Collection[str]
) -> list[Message]:
    """Return the messages that the host shows, and those that the plan hides."""
    shown_ids = {message.id or "" for message in shown if message is not None}
    return [message for message in history if message.id in shown_ids or message.id in absorbed_ids]


def _take_instruction(item: Any, instructions: list[Message]) -> KnownItem | None:
    """Find the logged form of an instruction. Each one is used once."""
    plain = to_plain(item)
    for index, message in enumerate(instructions):
        known = source_item(message)
        if known == item or (isinstance(plain, Mapping) and known == plain):
            del instructions[index]
            return KnownItem(message.id or "", is_unchanged=True)
    return None
