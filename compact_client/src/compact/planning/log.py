"""The log: every message a session has shown, in order, for ever.

Append-only. A message gets its id here; the id holds a piece of its content's hash, so that a restarted process
cannot mistake one message for another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from compact.messages import Message, canonical_json


class AgentThread:
    """An append-only sequence of messages with ids."""

    def __init__(self, thread_id: str) -> None:
        self.thread_id = thread_id
        self._messages: list[Message] = []
        self._by_id: dict[str, Message] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    @property
    def version(self) -> int:
        """How many messages were ever appended."""
        return len(self._messages)

    @property
    def messages(self) -> Sequence[Message]:
        return tuple(self._messages)

    def append(self, message: Message) -> Message:
        """Add a message and return it with its id."""
        # A call or a reasoning item has no text of its own; what it has is told apart as well.
        content = message.text.encode("utf-8", "surrogatepass") or canonical_json(message.to_dict())
        digest = hashlib.sha256(message.role.encode() + b"\0" + content).hexdigest()[:6]
        # A caller may change the meta of its own Message; the log keeps what it was.
        self._last += 1
        added = replace(message, id=f"m{self._last}-{digest}", meta=dict(message.meta))
        self._messages.append(added)
        assert added.id is not None
        self._by_id[added.id] = added
        return added

    def restore(self, message: Message) -> Message:
        """Add a message that already has its id: one that a stored plan knows."""
        if message.id is None or message.id in self._by_id:
            return self.append(message)
        self._messages.append(message)
        self._by_id[message.id] = message
        digits = message.id[1:].partition("-")[0]
        self._last = max(self._last, int(digits) if digits.isdigit() else 0)
        return message

    def get(self, message_id: str) -> Message | None:
        return self._by_id.get(message_id)
