"""A rough token count of a request: a quarter of its characters, and a fixed price for each attachment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ATTACHMENT_TOKENS = 700
_SEALED = ("encrypted_content", "signature")
_BINARY = ("data", "file_data", "image_url", "url")


def count_tokens(value: Any, key: str = "") -> int:
    """Return the tokens of every string in a JSON value."""
    if isinstance(value, str):
        if key in _SEALED:
            return 0
        if key in _BINARY and len(value) > 200:
            return ATTACHMENT_TOKENS
        return len(value) // 4 + 1
    if isinstance(value, Mapping):
        return sum(count_tokens(item, name) for name, item in value.items())
    if isinstance(value, list):
        return sum(count_tokens(item, key) for item in value)
    return 1
