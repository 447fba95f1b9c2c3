"""Recognize a host's message list after an edit, and decide what the edit means for the plan.

Pure functions over lists. A recognized message keeps its id, so the plan continues to apply to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compact.engine.session.alignment import align
from compact.engine.session.request import ListSnapshot, source_item, to_plain
from compact.messages import Message, content_hash
from compact.messages.codecs.base import Codec
from compact.planning.plan import CompactionPlan

# Up to this number, comparing item by item is cheaper than an alignment.
_MAX_SMALL_EDITS = 8
# Id prefixes of messages that a renderer writes in place of others.
_REPLACEMENT_PREFIXES = ("summary-v", "span-", "artifact-")


def recognize_items(
    items: Sequence[Any], codec: Codec, host_list: ListSnapshot, returned_list: ListSnapshot, view: Sequence[Message]
) -> tuple[list[str | None], ListSnapshot]:
    """Return the known id of each item, and the list that matched best.

    The candidates are the host's last list, the list last returned to it, and the full history.
    """
    for reference in (host_list, returned_list):
        # The most common edit is a system prompt that contains the time. Detect it without decoding every message.
        ids = _match_small_edit(items, reference)
        if ids is not None:
            return ids, reference
    history = ListSnapshot()
    for message in view:
        history.add(source_item(message), message.id or "")
    keys = [_key(codec.decode(to_plain(item), index)) for index, item in enumerate(items)]
    best: list[str | None] = [None] * len(items)
    best_reference = host_list
    for reference in (host_list, returned_list, history):
        matches = align(keys, [_key(to_plain(item)) for item in reference.items])
        known_ids = [None if match is None else reference.ids[match] for match in matches]
        if known_ids.count(None) < best.count(None):
            best, best_reference = known_ids, reference
    return best, best_reference


def is_new_conversation(known_ids: Sequence[str], view: Sequence[Message]) -> bool:
    """True if the host's list contains nothing that was said before under this session id."""
    spoken = {message.id for message in view if message.role not in ("system", "developer")}
    return bool(spoken) and not any(
        message_id in spoken or message_id.startswith("summary-v") for message_id in known_ids
    )


def is_rewound(known_ids: Sequence[str], view: Sequence[Message], plan: CompactionPlan | None) -> bool:
    """True if the host went back to a point before compacted messages. Dropping old messages is not a rewind."""
    if plan is None or any(message_id.startswith(_REPLACEMENT_PREFIXES) for message_id in known_ids):
        return False
    order = {message.id or "": index for index, message in enumerate(view)}
    last = max((order[message_id] for message_id in known_ids if message_id in order), default=-1)
    return any(order.get(entry.id, -1) > last for entry in plan.absorbed)


def merge_hidden(edited: Sequence[Message], view: Sequence[Message], reference: ListSnapshot) -> list[Message]:
    """Insert the messages that the host was no longer shown into the edited view, at their old positions."""
    reference_ids = set(reference.ids)
    order = {message.id: index for index, message in enumerate(view)}
    edited_ids = {message.id for message in edited}
    pending = iter([message for message in view if message.id not in reference_ids])
    merged: list[Message] = []
    hidden = next(pending, None)
    for message in edited:
        index = order.get(message.id)
        while hidden is not None and index is not None and order[hidden.id] < index:
            merged.append(hidden)
            hidden = next(pending, None)
        merged.append(message)
    while hidden is not None:
        if hidden.id not in edited_ids:
            merged.append(hidden)
        hidden = next(pending, None)
    return merged


def _key(item: Any) -> str:
    if isinstance(item, Message):
        item = item.to_dict()
    return content_hash(item) if isinstance(item, Mapping) else repr(item)


def _match_small_edit(items: Sequence[Any], reference: ListSnapshot) -> list[str | None] | None:
    """Return the ids if the host only replaced a few items in place and appended others, else None."""
    size = len(reference.items)
    if not size or len(items) < size:
        return None
    ids: list[str | None] = list(reference.ids)
    metas = reference.metas
    # In a short list, more differences than this mean that items were inserted or removed.
    max_edits = min(_MAX_SMALL_EDITS, size // 4)
    edits = 0
    for index in range(size):
        item = items[index]
        if item != reference.items[index] or (metas is not None and getattr(item, "meta", None) != metas[index]):
            edits += 1
            if edits > max_edits:
                return None
            ids[index] = None
    return [*ids, *([None] * (len(items) - size))]
