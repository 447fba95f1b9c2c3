"""The response of a provider: a JSON body, and the same as a stream of server-sent events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Event = tuple[str | None, dict[str, Any] | str]
"""Name and data of a server-sent event."""


@dataclass(frozen=True)
class Reply:
    body: dict[str, Any]
    events: Iterable[Event] = ()


def encode(event: Event) -> bytes:
    name, data = event
    text = data if isinstance(data, str) else json.dumps(data)
    return ((f"event: {name}\n" if name else "") + f"data: {text}\n\n").encode()


def text_of(content: Any) -> str:
    """Return the text of a string, a part or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return text_of(content.get("text", content.get("content", content.get("output"))))
    if isinstance(content, list):
        return "\n".join(filter(None, map(text_of, content)))
    return ""


def words(text: str) -> list[str]:
    """Return the parts in which a text is streamed."""
    return re.findall(r"\S+\s*", text)
