"""The prompts that a request of the Responses API continues with `previous_response_id`.

Such a request has only the new items. The provider knows the others, and so does this module, for the responses that it
has seen. A response belongs to the credential that it was made with.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from compact.delivery import fast_json
from compact.gateway.recorder.exchanges import Exchange
from compact.gateway.recorder.protocols import RequestBody

_MAX_RESPONSES = 256
_MAX_BYTES = 32 * 1024 * 1024
PREVIOUS: Final = "previous_response_id"
_INPUT = "input"


_Key = tuple[str, str]
"""A credential and the id of a response."""


class _Chain(NamedTuple):
    items: Sequence[msgspec.Raw]
    size: int
    parent: _Key | None


class ResponseChains:
    """The items of each response's prompt and answer, the latest ones."""

    def __init__(self) -> None:
        self._items: OrderedDict[_Key, _Chain] = OrderedDict()
        self._bytes = 0

    def complete(self, exchange: Exchange, body: RequestBody) -> bool:
        """Add the earlier items to a request that refers to them. Return False if they are not known."""
        previous = body.get(PREVIOUS)
        if not isinstance(previous, str) or not previous:
            return True
        known = self._items.get((exchange.head["credential"], previous))
        if known is None:
            return False
        body.replace_list(_INPUT, [*known.items, *body.elements(_INPUT)])
        return True

    def add(self, exchange: Exchange, body: RequestBody) -> None:
        """Remember the prompt and the answer of a response."""
        if exchange.protocol.name != "responses" or not exchange.answer.id or exchange.is_aborted:
            return
        answer = [msgspec.Raw(fast_json.dump(item)) for item in exchange.answer.items]
        items = [*body.elements(_INPUT), *answer]
        size = sum(map(len, items))
        credential, previous = exchange.head["credential"], body.get(PREVIOUS)
        parent = (credential, previous) if isinstance(previous, str) else None
        # One step back is enough for a retry. The items of a chain share their bytes.
        known = self._items.get(parent) if parent is not None else None
        if known is not None and known.parent is not None:
            self._drop(known.parent)
        self._items[credential, exchange.answer.id] = _Chain(items, size, parent)
        self._bytes += size
        while len(self._items) > _MAX_RESPONSES or self._bytes > _MAX_BYTES:
            self._drop(next(iter(self._items)))

    def _drop(self, key: _Key) -> None:
        known = self._items.pop(key, None)
        self._bytes -= known.size if known else 0
