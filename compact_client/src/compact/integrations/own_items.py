"""The caller's own items in a request that the manager returned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compact.engine.session.request import without_meta


def own_items(returned: Sequence[Any], given: Sequence[dict[str, Any]]) -> list[Any]:
    """Return a request with the given items in place of their copies.

    The manager returns the items that it was given, except that an item with the key `meta`, such as a protected one,
    comes back as a copy without that key. An integration finds the framework's message by the identity of the item.
    """
    given_ids = {id(item) for item in given}
    marked = [(without_meta(item), item) for item in given if "meta" in item]
    items: list[Any] = []
    for item in returned:
        copied = None if id(item) in given_ids else _index_of(item, marked)
        items.append(item if copied is None else marked.pop(copied)[1])
    return items


def _index_of(item: Any, marked: Sequence[tuple[Any, Any]]) -> int | None:
    return next((index for index, (copy, _) in enumerate(marked) if copy == item), None)
