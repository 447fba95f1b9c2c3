"""The prompt of one conversation as a list of content blocks.

A request repeats nearly all blocks of the one before. Leading messages with the same bytes are recognized together by
one digest. A later message whose bytes are known is not parsed again, and a block that is known is not hashed, redacted
or counted again, so the work is in proportion to what is new.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from compact.agents.agent import Wire
from compact.gateway.recorder.protocols import Protocol, RequestBody
from compact.gateway.recorder.protocols.base import Item, fingerprint
from compact.gateway.recorder.request_messages import RequestMessages
from compact.ledgers.foreign_compaction import LogMessage
from compact.messages import Message, content_hash
from compact.messages.block_kinds import Content, kind_of
from compact.messages.codecs import get_codec
from compact.messages.codecs.quarantine import decode_item
from compact.messages.media import without_binary
from compact.reading.prompt_parts import BlockPart, PartReader, parts_of_tools

Redact = Callable[[Sequence[Item]], list[Item]]
_NO_WIRE = Wire(read_request=lambda headers, path, fields: None)
_LAST_MESSAGES = 4
"""The messages at the end of a request in which agents move their marks."""
_FIXED = ("system", "systemInstruction", "system_instruction", "instructions", "tools", "functions")


@dataclass(slots=True, eq=False)
class Block:
    """One content block of a prompt, redacted."""

    message: LogMessage
    print: bytes
    """A digest of what the block says, without what moves from request to request."""
    hash: str
    """The SHA-256 of the redacted block, by which the server knows it."""
    parts: list[BlockPart]
    tokens: int
    """The estimate of its tokens."""
    role: str
    is_aside: bool = False
    """True for a reminder, which the agent adds, moves and removes at will."""
    is_reasoning: bool = False
    is_answer: bool = False
    """True for a block of the last answer, until a request repeats it."""
    result_of: str = ""
    """The call that the block has the result of."""

    @property
    def name(self) -> str:
        """The id of the block, which is unique in its conversation."""
        return self.message.id


_Slot = Block | tuple[Item, bytes, int]
"""A known block, or the content of a new one with its print and its number among equal ones."""


@dataclass(slots=True)
class _Beginning:
    """The leading messages of a request, which the next one most likely repeats."""

    message_count: int = 0
    digest: bytes = b""
    block_count: int = 0
    numbers: Counter[bytes] = field(default_factory=Counter)
    """The number of blocks with each print."""


class PromptReader:
    """Reads the prompts of one conversation."""

    def __init__(self, protocol: Protocol, wire: Wire | None, redact: Redact, *, model: str = "") -> None:
        self.protocol = protocol
        self._wire = wire or _NO_WIRE
        self._redact = redact
        self._codec = get_codec(protocol.format)
        self._parts = PartReader(provider=protocol.provider, model=model, read_text=self._wire.read_text)
        self._blocks: list[Block] = []
        """The blocks of the last request and its answer."""
        self._beginning = _Beginning()
        """The beginning of the last request."""
        self._fixed: dict[bytes, list[BlockPart]] = {}
        """The parts of system prompt and tools, by the digest of their bytes."""

    def resume(self, blocks: Sequence[Block]) -> None:
        """Continue after the blocks of a prompt and its answer that another reader has read."""
        self._blocks = list(blocks)
        for block in blocks:
            self._parts_of(block.message.item)
        # A secret may have started in the last block.
        self._redact([blocks[-1].message.item])

    def read(self, messages: RequestMessages, at: str) -> list[Block]:
        """Return the blocks of a request."""
        # Forgotten until the end, so that a message that cannot be read leaves nothing that is half done.
        beginning, self._beginning = self._beginning, _Beginning()
        end = max(len(messages) - _LAST_MESSAGES, 0)
        digest, end_digest = messages.digests(beginning.message_count, max(end, beginning.message_count))
        if digest != beginning.digest:
            beginning, (end_digest,) = _Beginning(), messages.digests(end)
        end = max(end, beginning.message_count)
        known = self._known_after(beginning)
        slots = self._read_messages(messages, range(beginning.message_count, end), beginning.numbers, known)
        block_count = beginning.block_count + len(slots)
        slots += self._read_messages(messages, range(end, len(messages)), beginning.numbers.copy(), known)
        blocks = [*self._blocks[: beginning.block_count], *self._complete(slots, at)]
        for block in blocks[beginning.block_count :]:
            block.is_answer = False
        self._beginning = _Beginning(end, end_digest, block_count, beginning.numbers)
        self._blocks = blocks
        return blocks

    def read_answer(self, items: Iterable[Item], at: str) -> list[Block]:
        """Return the blocks of an answer. The next request will most likely repeat them."""
        seen = Counter(block.print for block in self._blocks[self._beginning.block_count :])
        slots: list[_Slot] = []
        for item in items:
            name = fingerprint(self.protocol.identity(item))
            slots.append((item, name, self._beginning.numbers[name] + seen[name]))
            seen[name] += 1
        blocks = self._complete(slots, at)
        for block in blocks:
            block.is_answer = True
        self._blocks = [*self._blocks, *blocks]
        return blocks

    def _known_after(self, beginning: _Beginning) -> dict[tuple[bytes, int], Block]:
        """Return the blocks of the last request and its answer after a beginning, by print and number."""
        known: dict[tuple[bytes, int], Block] = {}
        seen: Counter[bytes] = Counter()
        for block in self._blocks[beginning.block_count :]:
            known[block.print, beginning.numbers[block.print] + seen[block.print]] = block
            seen[block.print] += 1
        return known

    def _read_messages(
        self,
        messages: RequestMessages,
        indexes: range,
        numbers: Counter[bytes],
        known: dict[tuple[bytes, int], Block],
    ) -> list[_Slot]:
        """Return the blocks of some messages, and count them in `numbers`."""
        slots: list[_Slot] = []
        for index in indexes:
            for position, name in enumerate(messages.prints(index)):
                number = numbers[name]
                numbers[name] = number + 1
                block = known.get((name, number))
                slots.append((messages.items(index)[position], name, number) if block is None else block)
        return slots

    def fixed_parts(self, body: RequestBody) -> list[BlockPart]:
        """Return the parts of the system prompt and of the tools, which are not among the messages."""
        digest = hashlib.sha256(b",".join(map(body.raw, _FIXED))).digest()
        parts = self._fixed.get(digest)
        if parts is None:
            system = (self._parts.read(block, "system") for block in self.protocol.system(body))
            parts = [*system, *parts_of_tools(body.get("tools") or body.get("functions"))]
            self._fixed = {digest: parts}
        return parts

    def _complete(self, slots: Sequence[_Slot], at: str) -> list[Block]:
        """Create the blocks that are new. They are redacted together, so that a secret may span two of them."""
        new = [slot for slot in slots if isinstance(slot, tuple)]
        if not new:
            return [slot for slot in slots if isinstance(slot, Block)]
        parts = [self._parts_of(item) for item, _, _ in new]
        clean = self._redact([without_binary(item, self.protocol.provider)[0] for item, _, _ in new])
        created = iter(
            self._block(item, name, number, own, at)
            for item, (_, name, number), own in zip(clean, new, parts, strict=True)
        )
        return [slot if isinstance(slot, Block) else next(created) for slot in slots]

    def _parts_of(self, item: Item) -> list[BlockPart]:
        return parts_of_item(self._parts, self.protocol, item)

    def _block(self, item: Item, print_: bytes, number: int, parts: list[BlockPart], at: str) -> Block:
        name = print_.hex() if not number else f"{print_.hex()}-{number + 1}"
        message = decode_item(self._codec, item, 0)
        text = message.text
        is_user = message.role == "user" or str(item.get("role")) == "user"
        is_aside = is_user and self._wire.is_aside(text)
        is_program = is_user and (is_aside or self._wire.is_notice(text) or self._wire.is_summary(text))
        return Block(
            LogMessage(name, item, at, is_program=is_program),
            print_,
            content_hash(item),
            parts,
            sum(part.tokens for part in parts),
            message.role,
            is_aside=is_aside,
            is_reasoning=_is_reasoning(message),
            result_of=message.answers[0] if message.answers else "",
        )

    def decode(self, block: Block) -> Message:
        """Return the message of a block."""
        return decode_item(self._codec, block.message.item, 0)

    def outputs(self, block: Block) -> Sequence[tuple[str, str]]:
        """Return the call id and the text of each tool result in a block."""
        return self._codec.outputs(self.decode(block))


def parts_of_item(reader: PartReader, protocol: Protocol, item: Item) -> list[BlockPart]:
    """Return the parts of a block as a protocol's `items` returns it."""
    content = item.get("content")
    is_single = protocol.format == "anthropic" and isinstance(content, list) and content
    return reader.read_all(content[0] if is_single else item, str(item.get("role") or ""))  # type: ignore[index]


def is_summary_request(wire: Wire | None, message: Message) -> bool:
    """Return True if the last block of a prompt is the agent's instruction to write a summary."""
    return wire is not None and message.role == "user" and wire.is_summary_request(message.text)


def _is_reasoning(message: Message) -> bool:
    if message.kind == "reasoning":
        return True
    content: Any = (message.source or {}).get("content")
    kind = kind_of(content[0]) if isinstance(content, list) and content else None
    return kind is not None and kind.content is Content.REASONING
