"""The append-only log of all messages in a session.

A message gets its id here: its number, and the start of its hash, so that a restarted process cannot confuse two
messages. The hash is that of the redacted form, because ids leave the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from compact.messages import Message

_HASH_CHARS = 6


class AgentThread:
    """The log of a session. Document 003 calls it `AgentThread`."""

    def __init__(self, thread_id: str) -> None:
        self.thread_id = thread_id
        self._by_id: dict[str, Message] = {}
        self._last_number = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._by_id.values())

    @property
    def version(self) -> int:
        """The number of messages in the log."""
        return len(self._by_id)

    @property
    def messages(self) -> Sequence[Message]:
        return tuple(self._by_id.values())

    def tail(self, count: int) -> list[Message]:
        """Return the last messages, in order."""
        return list(islice(reversed(self._by_id.values()), count))[::-1]

    def append(
        self, messages: Sequence[Message], hash_messages: Callable[[Sequence[Message]], Sequence[str]]
    ) -> list[Message]:
        """Append messages and return them with their ids. `hash_messages` gets them with their numbers as ids."""
        first = self._last_number + 1
        # Copy the meta, because the caller may change its own dict later.
        numbered = [
            replace(message, id=f"m{number}", meta=dict(message.meta)) for number, message in enumerate(messages, first)
        ]
        hashes = hash_messages(numbered)
        self._last_number += len(messages)
        added = [
            replace(message, id=f"{message.id}-{digest[:_HASH_CHARS]}")
            for message, digest in zip(numbered, hashes, strict=True)
        ]
        self._by_id.update((message.id or "", message) for message in added)
        return added

    def restore(self, message: Message) -> Message:
        """Append a message under the id that a stored plan uses for it."""
        assert message.id is not None
        self._by_id[message.id] = message
        digits = message.id[1:].partition("-")[0]
        self._last_number = max(self._last_number, int(digits) if digits.isdigit() else 0)
        return message

    def restate(self, message_id: str, message: Message) -> Message:
        """Replace the form of a message that says the same, such as one with another cache mark. It keeps its id."""
        self._by_id[message_id] = replace(message, id=message_id, meta=dict(message.meta))
        return self._by_id[message_id]

    def get(self, message_id: str) -> Message | None:
        return self._by_id.get(message_id)
