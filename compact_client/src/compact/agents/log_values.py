"""Read values of a log that may have any type, because agents change their formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def text_blocks(content: Any) -> str:
    """Return the text of Anthropic or Responses content, one block per line."""
    if isinstance(content, str):
        return content
    if isinstance(content, Iterable):
        return "\n".join(
            str(block.get("text", "")) for block in content if isinstance(block, Mapping) and "text" in block
        )
    return ""


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a value from a log if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """Return a value from a log if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_count(value: Any) -> int:
    """Return a number from a log, or 0 for anything else."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0


def as_text(value: Any) -> str | None:
    """Return a text from a log, or None for anything else."""
    return value if isinstance(value, str) and value else None
