"""Constructors of the redacted types. Only `compact.redaction` may import this module, and `make lint` checks it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from compact.messages.message import Message
from compact.messages.redacted_types import RedactedMessage, RedactedText, RedactedTree

_FIELDS = tuple(field.name for field in fields(Message))


def seal_message(message: Message) -> RedactedMessage:
    """Declare that a message contains no secrets."""
    if isinstance(message, RedactedMessage):
        return message
    sealed = object.__new__(RedactedMessage)
    for name in _FIELDS:
        object.__setattr__(sealed, name, getattr(message, name))
    return sealed


def seal_message_as(message: RedactedMessage, message_id: str) -> RedactedMessage:
    """Return a redacted message under another id."""
    sealed = object.__new__(RedactedMessage)
    for name in _FIELDS:
        object.__setattr__(sealed, name, message_id if name == "id" else getattr(message, name))
    return sealed


def seal_text(text: str) -> RedactedText:
    """Declare that a text contains no secrets."""
    return str.__new__(RedactedText, text)


def seal_tree(tree: Mapping[str, Any]) -> RedactedTree:
    """Declare that a JSON object contains no secrets."""
    sealed = dict.__new__(RedactedTree)
    sealed.update(tree)
    return sealed
