"""Dump LangChain messages once, and again only after a change.

A host passes its whole history on each call, and pydantic takes several microseconds to dump one message. A dump is
used again while the object exists and its fields are equal to a copy of them, so a change in place is noticed.
"""

from __future__ import annotations

import contextlib
import json
import operator
import weakref
from collections.abc import Callable
from typing import Any, Final, NamedTuple

UNREAD_FIELDS: Final = frozenset({"artifact", "response_metadata", "usage_metadata"})
_GETTERS: Final[dict[type[Any], Callable[[dict[str, Any]], tuple[Any, ...]]]] = {}
_LEAVES: Final = (str, int, float, bool, type(None))


class _Dump(NamedTuple):
    message: weakref.ref[Any]
    fields: Any
    item: dict[str, Any]


class DumpCache:
    """The dumps of messages that exist. Callers must not change a dump."""

    def __init__(self) -> None:
        self._dumps: dict[int, _Dump] = {}

    def __len__(self) -> int:
        return len(self._dumps)

    def read(self, message: Any) -> dict[str, Any]:
        """Return a message as a dict, without the fields that are not read."""
        key = id(message)
        fields = _fields(message)
        known = self._dumps.get(key)
        if known is not None and fields is not None and known.message() is message and _is_equal(known.fields, fields):
            return known.item
        item = _dump(message)
        self._dumps.pop(key, None)
        # A message with other objects than JSON values is dumped each time, because they can change unnoticed.
        with contextlib.suppress(TypeError):
            # The callback runs before the id can belong to another object.
            reference = weakref.ref(message, lambda _: self._dumps.pop(key, None))
            if fields is not None:
                self._dumps[key] = _Dump(reference, _copy(fields), item)
        return item


def _dump(message: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"exclude_none": True, "exclude": set(UNREAD_FIELDS)}
    try:
        item: dict[str, Any] = message.model_dump(mode="json", **options)
    except ValueError:
        # An argument or a mark is an object that has no JSON form.
        item = json.loads(json.dumps(message.model_dump(**options), default=str))
    return item


def _fields(message: Any) -> tuple[Any, ...] | None:
    """Return the values that a dump is made of, None if they are not those of a complete pydantic model."""
    try:
        declared = _getter(type(message))(message.__dict__)
        return (*declared, message.__pydantic_extra__)
    except (AttributeError, KeyError):
        return None


def _getter(message_class: type[Any]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    getter = _GETTERS.get(message_class)
    if getter is None:
        names = [name for name in message_class.model_fields if name not in UNREAD_FIELDS]
        getter = _GETTERS[message_class] = operator.itemgetter(*names)
    return getter


def _copy(value: Any) -> Any:
    """Return a copy of JSON values. Raise `TypeError` for any other object."""
    if type(value) in _LEAVES:
        return value
    if type(value) is dict:
        return {key: _copy(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_copy, value))
    raise TypeError(f"not a JSON value: {type(value).__name__}")


def _is_equal(known: Any, fields: Any) -> bool:
    try:
        return bool(known == fields)
    except Exception:  # An object of the host that cannot be compared.
        return False
