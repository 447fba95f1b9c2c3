"""The append-only log of all messages in a session.

A message gets its id here. The id contains part of the content's hash, so that a restarted process cannot confuse two
messages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from compact.messages import Message, canonical_json


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

    def append(self, message: Message) -> Message:
        """Append a message and return it with its id."""
        # Tool calls and reasoning items may have no text. Hash their JSON instead.
        content = message.text.encode("utf-8", "surrogatepass") or canonical_json(message.to_dict())
        digest = hashlib.sha256(message.role.encode() + b"\0" + content).hexdigest()[:6]
        self._last_number += 1
        # Copy the meta, because the caller may change its own dict later.
        added = replace(message, id=f"m{self._last_number}-{digest}", meta=dict(message.meta))
        assert added.id is not None
        self._by_id[added.id] = added
        return added

    def restore(self, message: Message) -> Message:
        """Append a message under the id that a stored plan uses for it."""
        if message.id is None or message.id in self._by_id:
            return self.append(message)
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
