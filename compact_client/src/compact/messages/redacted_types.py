"""Types for text that may leave the process.

Only `compact.redaction` creates values of these types. Summarizers, strategies, events and archives accept no other
message text, so text that was never redacted cannot reach them. `compact.messages.seal` has the constructors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NewType, Self

from compact.messages.message import Message

_FIELDS = tuple(field.name for field in fields(Message))

RedactedTree = NewType("RedactedTree", Mapping[str, Any])
"""A JSON object in which all texts are redacted."""


class RedactedText(str):
    """A text without secrets. Parts of it are ordinary strings."""

    __slots__ = ()

    def __new__(cls, *_: object) -> Self:
        raise TypeError("Only the redaction view creates a RedactedText. Use RedactionView.text.")


class RedactedMessage(Message):
    """A message without secrets. It cannot be changed, not even with `dataclasses.replace`."""

    __slots__ = ()

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError("Only the redaction view creates a RedactedMessage. Use RedactionView.mask.")

    # A dataclass compares only objects of exactly the same class. A redacted message equals its unchanged original.
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _FIELDS if name != "id")

    __hash__ = Message.__hash__
