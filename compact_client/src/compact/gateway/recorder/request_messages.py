"""The messages of a request, each parsed at most once, and not at all if its bytes were seen before."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from compact.delivery import fast_json
from compact.gateway.recorder.protocols import PROTOCOLS, Protocol, RequestBody
from compact.gateway.recorder.protocols.base import Item, fingerprint

_MAX_MESSAGES = 10_000

Prints = tuple[bytes, ...]
"""A digest of what each block of a message says, without what moves from request to request."""


class KnownPrints:
    """The prints of messages by the SHA-256 of their bytes, for all sessions. It has digests and no content."""

    def __init__(self, max_messages: int = _MAX_MESSAGES) -> None:
        self._max = max_messages
        self._new: Mapping[str, dict[bytes, Prints]] = {}
        self._old: Mapping[str, dict[bytes, Prints]] = {}
        """The messages before the last `max_messages` new ones. Moving them costs less than an order of use."""
        self._count = 0
        self._turn_over()

    def get(self, protocol: Protocol, digest: bytes) -> Prints | None:
        """Return the prints of a message, if its bytes were seen before."""
        prints = self._new[protocol.name].get(digest)
        if prints is None and (prints := self._old[protocol.name].get(digest)) is not None:
            self.add(protocol, digest, prints)
        return prints

    def add(self, protocol: Protocol, digest: bytes, prints: Prints) -> None:
        """Remember the prints of a message."""
        self._count += 1
        if self._count > self._max:
            self._turn_over()
        self._new[protocol.name][digest] = prints

    def _turn_over(self) -> None:
        self._old = self._new or {name: {} for name in PROTOCOLS}
        self._new = {name: {} for name in PROTOCOLS}
        self._count = 0


class RequestMessages:
    """The messages of one request."""

    def __init__(self, protocol: Protocol, body: RequestBody, known: KnownPrints) -> None:
        self.protocol = protocol
        self._raw = body.elements(protocol.api.items_key)
        self._known = known
        self._prints: dict[int, Prints] = {}
        self._items: dict[int, list[Item]] = {}

    def __len__(self) -> int:
        return len(self._raw)

    def items(self, index: int) -> list[Item]:
        """Return the blocks of a message."""
        items = self._items.get(index)
        if items is None:
            items = self._items[index] = self.protocol.items(fast_json.parse(bytes(self._raw[index])))
        return items

    def prints(self, index: int) -> Prints:
        """Return the prints of the blocks of a message."""
        prints = self._prints.get(index)
        if prints is None:
            digest = hashlib.sha256(self._raw[index]).digest()  # Takes half the time of BLAKE2 on today's processors.
            prints = self._known.get(self.protocol, digest)
            if prints is None:
                prints = tuple(fingerprint(self.protocol.identity(item)) for item in self.items(index))
                self._known.add(self.protocol, digest, prints)
            self._prints[index] = prints
        return prints

    def all_prints(self) -> list[bytes]:
        """Return the prints of all blocks."""
        return [name for index in range(len(self)) for name in self.prints(index)]

    def digests(self, *counts: int) -> list[bytes]:
        """Return the SHA-256 of the bytes of the leading messages, for each of some rising counts of them."""
        digest, done, digests = hashlib.sha256(), 0, []
        for count in counts:
            # The separator shows where a message ends, because it cannot stand between two values.
            digest.update(b",".join([*self._raw[done:count], b""]))
            digests.append(digest.digest())
            done = count
        return digests
