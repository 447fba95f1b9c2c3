"""The prompt of one conversation as a list of content blocks.

A request repeats nearly all blocks of the one before. A message whose bytes are known is not parsed again, and a block
that is known is not hashed, redacted or counted again, so the work is in proportion to what is new.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from compact.agents.agent import Wire
from compact.delivery import fast_json
from compact.gateway.recorder.protocols import Protocol, RequestBody
from compact.gateway.recorder.protocols.base import Item, fingerprint
from compact.ledgers.foreign_compaction import LogMessage
from compact.messages import Message, content_hash
from compact.messages.block_kinds import Content, kind_of
from compact.messages.codecs import get_codec
from compact.messages.codecs.quarantine import decode_item
from compact.messages.media import without_binary
from compact.reading.prompt_parts import BlockPart, PartReader, parts_of_tools

Redact = Callable[[Sequence[Item]], list[Item]]
_NO_WIRE = Wire(read_request=lambda headers, path, fields: None)


@dataclass(slots=True, eq=False)
class Block:
    """One content block of a prompt, redacted."""

    message: LogMessage
    print: bytes
    """A digest of what the block says, without what moves from request to request."""
    hash: str
    """The SHA-256 of the redacted block, by which the server knows it."""
    parts: list[BlockPart]
    role: str
    is_aside: bool = False
    """True for a reminder, which the agent adds, moves and removes at will."""
    is_reasoning: bool = False
    is_answer: bool = False
    """True for a block of the last answer, until a request repeats it."""
    result_of: str = ""
    """The call that the block has the result of."""

    @property
    def tokens(self) -> int:
        """The estimate of its tokens."""
        return sum(part.tokens for part in self.parts)

    @property
    def name(self) -> str:
        """The id of the block, which is unique in its conversation."""
        return self.message.id


class PromptReader:
    """Reads the prompts of one conversation."""

    def __init__(self, protocol: Protocol, wire: Wire | None, redact: Redact, *, model: str = "") -> None:
        self.protocol = protocol
        self._wire = wire or _NO_WIRE
        self._redact = redact
        self._codec = get_codec(protocol.format)
        self._parts = PartReader(provider=protocol.provider, model=model, read_text=self._wire.read_text)
        self._prints: dict[bytes, tuple[bytes, ...]] = {}
        """The prints of the blocks of each message of the last request, by the digest of its bytes."""
        self._known: dict[tuple[bytes, int], Block] = {}
        """The blocks of the last request and its answer, by print and number among equal ones."""
        self._fixed: dict[bytes, list[BlockPart]] = {}
        """The parts of system prompt and tools, by the digest of their bytes."""

    def resume(self, blocks: Sequence[Block]) -> None:
        """Continue after the blocks of a prompt and its answer that another reader has read."""
        seen: Counter[bytes] = Counter()
        for block in blocks:
            self._known[block.print, seen[block.print]] = block
            seen[block.print] += 1
            self._parts_of(block.message.item)
        # A secret may have started in the last block.
        self._redact([blocks[-1].message.item])

    def read(self, body: RequestBody, at: str) -> list[Block]:
        """Return the blocks of a request."""
        seen: Counter[bytes] = Counter()
        slots: list[Block | tuple[Item, bytes, int]] = []
        prints_of_messages: dict[bytes, tuple[bytes, ...]] = {}
        for raw in body.elements(self.protocol.api.items_key):
            digest = hashlib.sha256(raw).digest()  # Takes half the time of BLAKE2 on today's processors.
            prints, items = self._prints.get(digest), None
            if prints is None:
                items = self.protocol.items(fast_json.parse(bytes(raw)))
                prints = tuple(fingerprint(self.protocol.identity(item)) for item in items)
            prints_of_messages[digest] = prints
            for index, name in enumerate(prints):
                number = seen[name]
                seen[name] += 1
                block = self._known.get((name, number))
                if block is not None:
                    slots.append(block)
                    continue
                items = self.protocol.items(fast_json.parse(bytes(raw))) if items is None else items
                slots.append((items[index], name, number))
        self._prints = prints_of_messages
        blocks = self._complete(slots, at)
        self._remember(blocks)
        return blocks

    def read_answer(self, items: Iterable[Item], at: str) -> list[Block]:
        """Return the blocks of an answer. The next request will most likely repeat them."""
        seen = Counter(name for name, _ in self._known)
        slots: list[Block | tuple[Item, bytes, int]] = []
        for item in items:
            name = fingerprint(self.protocol.identity(item))
            slots.append((item, name, seen[name]))
            seen[name] += 1
        blocks = self._complete(slots, at)
        for block, slot in zip(blocks, slots, strict=True):
            block.is_answer = True
            if isinstance(slot, tuple):
                self._known[slot[1], slot[2]] = block
        return blocks

    def fixed_parts(self, body: RequestBody) -> list[BlockPart]:
        """Return the parts of the system prompt and of the tools, which are not among the messages."""
        names = ("system", "systemInstruction", "system_instruction", "instructions", "tools", "functions")
        digest = hashlib.blake2b(digest_size=16)
        for name in names:
            digest.update(body.raw(name))
        parts = self._fixed.get(digest.digest())
        if parts is None:
            system = (self._parts.read(block, "system") for block in self.protocol.system(body))
            parts = [*system, *parts_of_tools(body.get("tools") or body.get("functions"))]
            self._fixed = {digest.digest(): parts}
        return parts

    def _remember(self, blocks: Sequence[Block]) -> None:
        seen: Counter[bytes] = Counter()
        self._known = {}
        for block in blocks:
            self._known[block.print, seen[block.print]] = block
            seen[block.print] += 1
            block.is_answer = False

    def _complete(self, slots: Sequence[Block | tuple[Item, bytes, int]], at: str) -> list[Block]:
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
