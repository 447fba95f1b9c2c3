"""Find out what a host shows after it has edited its list, and what that means for the plan.

Pure functions over lists. A message that is recognised keeps its id, so that the plan goes on applying to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compact.engine.alignment import align
from compact.engine.request import Shown, item_of, plain
from compact.messages import Message, content_hash
from compact.messages.codecs.base import Codec
from compact.planning.plan import CompactionPlan

# More edits than this are cheaper to find by alignment than one by one.
_FEW_EDITS = 8
# Ids of what a renderer puts in the place of messages.
_OURS = ("summary-v", "span-", "artifact-")


def recognise(
    items: Sequence[Any], codec: Codec, shown: Shown, output: Shown, view: Sequence[Message]
) -> tuple[list[str | None], Shown]:
    """The known id of each item, and the list it was recognised in: what was shown, our output, or the history."""
    for reference in (shown, output):
        # The usual edit is a system prompt with a clock in it; finding it must not cost a reading of everything.
        ids = _few_edits(items, reference)
        if ids is not None:
            return ids, reference
    history = Shown()
    for message in view:
        history.add(item_of(message), message.id or "")
    keys = [_key(codec.decode(plain(item), place)) for place, item in enumerate(items)]
    best: list[str | None] = [None] * len(items)
    best_reference = shown
    for reference in (shown, output, history):
        places = align(keys, [_key(plain(item)) for item in reference.items])
        found = [None if place is None else reference.ids[place] for place in places]
        if found.count(None) < best.count(None):
            best, best_reference = found, reference
    return best, best_reference


def is_left(survived: Sequence[str], view: Sequence[Message]) -> bool:
    """Whether nothing that was said is shown any more: another conversation under the same name."""
    talk = {message.id for message in view if message.role not in ("system", "developer")}
    return bool(talk) and not any(message_id in talk or message_id.startswith("summary-v") for message_id in survived)


def is_rewound(survived: Sequence[str], view: Sequence[Message], plan: CompactionPlan | None) -> bool:
    """Whether the host went back to before messages that were compacted; dropping old ones is no going back."""
    if plan is None or any(message_id.startswith(_OURS) for message_id in survived):
        return False
    order = {message.id or "": place for place, message in enumerate(view)}
    last = max((order[message_id] for message_id in survived if message_id in order), default=-1)
    return any(order.get(entry.id, -1) > last for entry in plan.absorbed)


def with_hidden(edited: Sequence[Message], view: Sequence[Message], reference: Shown) -> list[Message]:
    """The edited view with the messages that the host was never shown again, in their old places."""
    in_reference = set(reference.ids)
    order = {message.id: place for place, message in enumerate(view)}
    hidden = [message for message in view if message.id not in in_reference]
    kept = {message.id for message in edited}
    merged: list[Message] = []
    waiting = iter(hidden)
    following = next(waiting, None)
    for message in edited:
        place = order.get(message.id)
        while following is not None and place is not None and order[following.id] < place:
            merged.append(following)
            following = next(waiting, None)
        merged.append(message)
    while following is not None:
        if following.id not in kept:
            merged.append(following)
        following = next(waiting, None)
    return merged


def _key(item: Any) -> str:
    if isinstance(item, Message):
        item = item.to_dict()
    return content_hash(item) if isinstance(item, Mapping) else repr(item)


def _few_edits(items: Sequence[Any], reference: Shown) -> list[str | None] | None:
    """The ids if the host only replaced a few messages in place and appended; None if it did more."""
    size = len(reference.items)
    if not size or len(items) < size:
        return None
    ids: list[str | None] = list(reference.ids)
    # In a short list that many differences are no edit but a shift, which only alignment sees.
    most = min(_FEW_EDITS, size // 4)
    edits = 0
    for place in range(size):
        if items[place] != reference.items[place] or (
            reference.metas is not None and getattr(items[place], "meta", None) != reference.metas[place]
        ):
            edits += 1
            if edits > most:
                return None
            ids[place] = None
    return [*ids, *([None] * (len(items) - size))]
