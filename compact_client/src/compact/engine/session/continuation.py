"""Decide by content whether a host's message list continues a known one.

A list continues a known one if it starts with all of it, or with the end of it, in the same order. Everything after
that part is new. Instructions are left out, because a host may change its system prompt at any time. Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compact.messages import INSTRUCTION_ROLES, POINTER_TAG, SPAN_TAG, SUMMARY_TAG, Message, json_hash, text_of
from compact.messages.block_kinds import TEXT_KINDS, kind_of

# A shorter end of a list is no evidence. Two users may begin with the same greeting and the same question.
_MIN_TAIL = 3
# Keys that a host may add, move or remove without changing what was said.
_MUTABLE_KEYS = frozenset({"id", "hash", "meta", "status", "cache_control", "additional_kwargs"})
_REPLACEMENT_TAGS = (SUMMARY_TAG, SPAN_TAG, POINTER_TAG)


@dataclass(frozen=True, slots=True)
class Overlap:
    """The part of a known list that another list starts with: `known[start:start + size]`, which is its end."""

    start: int
    size: int


def _role(item: Any) -> Any:
    """Return the role of a message. LangChain calls it `type`."""
    if isinstance(item, Mapping):
        return item.get("role") or item.get("type")
    return getattr(item, "role", None) or getattr(item, "type", None)


def is_instruction(item: Any) -> bool:
    """True for a system or developer message, and for an item that instructs the model in another way."""
    kind = kind_of(item)
    return _role(item) in INSTRUCTION_ROLES or (kind is not None and kind.is_instruction)


def is_replacement(item: Any) -> bool:
    """True for a summary or pointer that a renderer wrote."""
    if isinstance(item, Message):
        return item.is_replacement
    if not isinstance(item, Mapping) or _role(item) not in ("assistant", "ai", "model"):
        return False
    return text_of(item.get("content", item.get("parts"))).startswith(_REPLACEMENT_TAGS)


def identity_key(item: Any) -> str:
    """Return a hash of what a message says."""
    content = identity(item)
    return content if isinstance(content, str) else json_hash(content)


def identity(item: Any) -> Any:
    """Return what a message says, without ids, marks for the provider's cache, and our own `meta`."""
    if isinstance(item, Message):
        item = item.to_dict()
    if not isinstance(item, Mapping):
        return repr(item)
    content = {key: _content(value) for key, value in item.items() if key not in _MUTABLE_KEYS and value is not None}
    if content.get("type") == "message":
        del content["type"]
    if not content.get("content"):
        content.pop("content", None)
    if not any(value for key, value in content.items() if key not in ("type", "role")):
        # Nothing but its id distinguishes an encrypted or referenced item.
        content["id"] = item.get("id")
    return content


def find_overlap(known: Sequence[str], keys: Sequence[str]) -> Overlap:
    """Return the longest end of `known` that `keys` starts with."""
    if list(keys[: len(known)]) == list(known):
        return Overlap(0, len(known))
    # The failure function of Knuth, Morris and Pratt: `size` is the longest start of `keys` that ends here.
    failure = [0] * len(keys)
    size = 0
    for index in range(1, len(keys)):
        while size and keys[index] != keys[size]:
            size = failure[size - 1]
        size += keys[index] == keys[size]
        failure[index] = size
    size = 0
    for key in known:
        while size and (size == len(keys) or key != keys[size]):
            size = failure[size - 1]
        if keys and key == keys[size]:
            size += 1
    return Overlap(len(known) - size, size)


def is_long_enough(size: int, *, has_replacement: bool) -> bool:
    """True if this many equal messages prove that a list is the same. One of our own summaries always does."""
    return size >= _MIN_TAIL or has_replacement


def _content(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _content(part) for key, part in value.items() if key != "cache_control"}
    if not isinstance(value, list | tuple):
        return value
    if len(value) == 1 and isinstance(value[0], Mapping) and value[0].get("type") in TEXT_KINDS:
        return value[0].get("text")
    return [_content(part) for part in value]
