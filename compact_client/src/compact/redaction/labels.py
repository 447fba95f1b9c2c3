"""Separate the labels of a provider's item, such as its role, and its pictures from its texts.

Texts of adjacent messages are searched as one text. A label between them would split a key, or be masked as part of it.
A picture has no text, and searching 20 of them would take seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from compact.messages.media import is_opaque

_KEYS = frozenset({"role", "type", "id", "tool_call_id", "call_id", "tool_use_id", "status"})
_PICTURE_KEYS = frozenset({"url", "image_url", "data", "base64", "file_data", "result"})
_MAX_CHARS = 120


def redact_items(
    items: Sequence[dict[str, Any]], redact_values: Callable[[Sequence[Any]], Sequence[tuple[Any, Counter[str]]]]
) -> list[tuple[dict[str, Any], Counter[str]]]:
    """Redact the messages of a conversation together. Return each with its number of redactions per rule.

    A message without secrets is returned as it is.
    """
    labels: list[str] = []
    first_labels: list[int] = []
    contents: list[Any] = []
    for item in items:
        first_labels.append(len(labels))
        contents.append(split_labels(item, labels))
    (clean_labels, _), *results = redact_values([labels, *contents])
    redacted: list[tuple[dict[str, Any], Counter[str]]] = []
    for item, content, first, (clean, counts) in zip(items, contents, first_labels, results, strict=True):
        is_same = clean is content and clean_labels is labels
        redacted.append((item if is_same else join_labels(item, clean, iter(clean_labels[first:])), counts))
    return redacted


def split_labels(value: Any, labels: list[str]) -> Any:
    """Return a JSON value without its pictures and its labels, which are appended to the list."""
    if isinstance(value, dict):
        content: dict[Any, Any] = {}
        for key, item in value.items():
            if _is_label(key, item):
                labels.append(item)
            elif not _is_picture(key, item):
                content[key] = split_labels(item, labels) if isinstance(item, (dict, list)) else item
        return content
    if isinstance(value, list):
        return [split_labels(item, labels) if isinstance(item, (dict, list)) else item for item in value]
    return value


def join_labels(value: Any, content: Any, labels: Iterator[str]) -> Any:
    """Return the original value with redacted content and labels, in the original order of keys."""
    if isinstance(value, dict) and isinstance(content, dict):
        joined: dict[Any, Any] = {}
        contents = iter(content.items())
        for key, item in value.items():
            if _is_label(key, item):
                joined[key] = next(labels)
            elif _is_picture(key, item):
                joined[key] = item
            else:
                # A key that is itself a secret was renamed, so only the order is the same.
                new_key, new_item = next(contents)
                joined[new_key] = join_labels(item, new_item, labels)
        return joined
    if isinstance(value, list) and isinstance(content, list):
        return [join_labels(item, new_item, labels) for item, new_item in zip(value, content, strict=True)]
    _skip_labels(value, labels)
    return content


def _skip_labels(value: Any, labels: Iterator[str]) -> None:
    """Skip the labels of a value that was masked as a whole."""
    if isinstance(value, dict):
        for key, item in value.items():
            if _is_label(key, item):
                next(labels)
            elif isinstance(item, (dict, list)):
                _skip_labels(item, labels)
    elif isinstance(value, list):
        for item in value:
            _skip_labels(item, labels)


def _is_picture(key: Any, item: Any) -> bool:
    return key in _PICTURE_KEYS and isinstance(item, str) and is_opaque(item)


def _is_label(key: Any, item: Any) -> bool:
    return key in _KEYS and isinstance(item, str) and len(item) <= _MAX_CHARS
