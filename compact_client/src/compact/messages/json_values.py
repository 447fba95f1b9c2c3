"""Read values of JSON that others wrote. They may have any type, because agents and providers change their formats."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
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
    """Return a value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """Return a value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list."""
    yield from (item for item in as_list(value) if isinstance(item, Mapping))


def as_count(value: Any) -> int:
    """Return a number of tokens or of anything else that is counted, or 0 for other values."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf else 0


def as_text(value: Any) -> str | None:
    """Return a text, or None for anything else."""
    return value if isinstance(value, str) and value else None
