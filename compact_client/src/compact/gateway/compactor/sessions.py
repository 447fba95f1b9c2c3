"""The sessions whose requests may be compacted, and the elements of their last prompts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from compact.agents.agent import Agent
from compact.delivery import fast_json
from compact.gateway.recorder.exchanges import Exchange
from compact.gateway.recorder.prompt import parts_of_item
from compact.gateway.recorder.protocols import Protocol
from compact.gateway.recorder.protocols.base import fingerprint
from compact.gateway.recorder.sessions import Tail, tail_of
from compact.reading.prompt_parts import PartReader

_MAX_AGENTS = 16
"""Sub-agents of a session whose last messages are known."""


@dataclass(slots=True)
class Element:
    """One message of a prompt."""

    raw: bytes
    item: Any
    """The parsed message. A prompt that repeats it has the same object, so that the engine recognizes it faster."""
    _prints: tuple[bytes, ...] = ()

    def prints(self, protocol: Protocol) -> tuple[bytes, ...]:
        """Return the prints of its blocks."""
        if not self._prints:
            self._prints = tuple(fingerprint(protocol.identity(item)) for item in protocol.items(self.item))
        return self._prints


class CompactedSession:
    """One session. Nothing of it is shared with another credential's."""

    def __init__(self, session_id: str, agent: Agent | None, protocol: Protocol, credential: str) -> None:
        self.id = session_id
        self.agent = agent
        self.credentials = {credential}
        self.tails: dict[str, Tail] = {}
        self.plans: set[tuple[str, int]] = set()
        """The plans that were reported, by thread and version."""
        self.size = 0
        """The bytes of the messages that it knows."""
        self._elements: dict[str, dict[bytes, Element]] = {}

    def read(self, agent_id: str, raws: Sequence[msgspec.Raw]) -> list[Element]:
        """Return the messages of a request. Those of the last request of the same agent are not parsed again."""
        known = self._elements.get(agent_id, {})
        elements: list[Element] = []
        read: dict[bytes, Element] = {}
        for raw in raws:
            data = bytes(raw)
            digest = hashlib.sha256(data).digest()
            element = read.get(digest) or known.get(digest) or _element(data)
            read[digest] = element
            elements.append(element)
        self._elements[agent_id] = read
        while len(self._elements) > _MAX_AGENTS:
            del self._elements[next(iter(self._elements))]
        self.size = sum(len(element.raw) for known in self._elements.values() for element in known.values())
        return elements

    def drop_elements(self) -> None:
        """Forget the messages. They are parsed again with the next request."""
        self._elements, self.size = {}, 0

    def note_end(self, agent_id: str, elements: Sequence[Element], exchange: Exchange) -> None:
        """Remember a prompt and its answer, by which the next request is recognized."""
        protocol = exchange.protocol
        sent = (name for element in elements for name in element.prints(protocol))
        self.tails[agent_id] = tail_of(protocol, sent, _answer_prints(exchange))


def _element(data: bytes) -> Element:
    item = fast_json.parse(data)
    if isinstance(item, str):
        # The Responses API takes a text in place of a list with one message. In a list, it must be a message.
        item = {"role": "user", "content": item}
        data = fast_json.dump(item)
    return Element(data, item)


def _answer_prints(exchange: Exchange) -> Iterator[tuple[bytes, int]]:
    protocol = exchange.protocol
    reader = PartReader(provider=protocol.provider)
    for item in exchange.answer.items:
        if item:
            tokens = sum(part.tokens for part in parts_of_item(reader, protocol, item))
            yield fingerprint(protocol.identity(item)), tokens
