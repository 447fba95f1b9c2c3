"""Types for text that may leave the process.

Only `compact.redaction` creates values of these types. Summarizers, strategies, events and archives accept no other
message text, so text that was never redacted cannot reach them. `compact.messages.seal` has the constructors.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Self

from compact.messages.message import Message

_FIELDS = tuple(field.name for field in fields(Message))


class RedactedText(str):
    """A text without secrets. Parts of it are ordinary strings."""

    __slots__ = ()

    def __new__(cls, *_: object) -> Self:
        raise TypeError("Only the redaction view creates a RedactedText. Use RedactionView.text.")

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        # An exporter may copy an event or send it to another process. The copy is an ordinary string.
        return str, (str(self),)


class RedactedTree(dict[str, Any]):
    """A JSON object in which all texts are redacted. The redaction of events does not search it again."""

    __slots__ = ()

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError("Only the redaction view creates a RedactedTree. Use RedactionView.tree.")

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (dict(self),)


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
