"""Collect the texts of JSON values whose keys are all known to be harmless, which is the case for almost all values.

This is the hottest code of redaction besides the search itself. It does not record where a text is. A value that has a
secret, or anything unusual, is walked again by `Tree`, which finds the same texts in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from compact.messages.redacted_types import RedactedText, RedactedTree
from compact.redaction.known_keys import REDACTION_COUNTS, KnownKeys
from compact.redaction.secret_keys import NAME_KEYS, key_rule, rule_for_item, rule_for_pair

MIN_CARD_NUMBER = 10**12
"""Smaller integers are not card numbers."""
_MAX_POSITION_DIGITS = 8
# Deeper values are left to `Tree`, which is not limited by the stack.
_MAX_DEPTH = 40
_NUMBERS = frozenset({int, float})
_LISTS = frozenset({list, tuple})
_WITHOUT_TEXT = frozenset({float, bool, type(None), RedactedText, RedactedTree})


def add_plain_texts(texts: list[str], items: Iterable[Any], keys: KnownKeys, depth: int = 0) -> bool:
    """Append the texts of `items` in document order. Return False if `Tree` has to walk them instead."""
    if depth > _MAX_DEPTH:
        return False
    for item in items:
        kind = type(item)
        if kind is str:
            texts.append(item)
        elif kind is dict:
            is_plain = keys.plain.issuperset(item) or _has_harmless_keys(item, keys)
            if not is_plain or not add_plain_texts(texts, item.values(), keys, depth + 1):
                return False
        elif kind is int:
            _add_number(texts, item)
        elif kind in _LISTS:
            if not add_plain_texts(texts, item, keys, depth + 1):
                return False
        elif kind not in _WITHOUT_TEXT:
            return False
    return True


def _add_number(texts: list[str], number: int) -> None:
    if number >= MIN_CARD_NUMBER:
        texts.append(str(number))


def _is_position(key: object) -> bool:
    """True for the number of an item. A body can have more of them than known keys fit into memory."""
    return isinstance(key, str) and len(key) <= _MAX_POSITION_DIGITS and key.isdecimal()


def _is_secret_item(key: Any, item: Any) -> bool:
    """True if a key names a secret, and its value may be or contain one."""
    return key_rule(key) is not None and (isinstance(item, dict | list | tuple) or rule_for_item(key, item) is not None)


def _has_harmless_keys(container: Mapping[Any, Any], keys: KnownKeys) -> bool:
    """True if no key makes a value a secret: `{"input_tokens": 7}`, `{"name": "city", "value": "Ulm"}`."""
    has_name = False
    for key, item in container.items():
        if key in keys.plain or (key in keys.numeric and type(item) in _NUMBERS) or _is_position(key):
            continue
        if key not in keys.clean or key == REDACTION_COUNTS:
            return False
        has_name = has_name or key in NAME_KEYS
        if _is_secret_item(key, item):
            return False
    return not has_name or rule_for_pair(container) == (None, None)
