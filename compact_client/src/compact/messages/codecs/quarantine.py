"""Read an item that its codec rejects, so that one malformed message does not disable compaction for all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compact.exceptions import MalformedMessage
from compact.messages import Message, Role, text_of
from compact.messages.codecs.base import Codec

PROBLEM_KEY = "malformed"
"""Key in `meta` for the problem of a malformed message."""
_ROLES: dict[Any, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "tool": "tool",
    "function": "tool",
}


def decode_item(codec: Codec, item: Any, index: int) -> Message:
    """Read an item. A malformed one has no calls and no answers, and is sent unchanged while it is recent."""
    try:
        return codec.decode(item, index)
    except MalformedMessage as error:
        source = item if isinstance(item, Mapping) else {"role": "user", "content": str(item)}
        text = text_of(source.get("content") or source.get("output"))
        meta = {PROBLEM_KEY: str(error)}
        return Message(_role(source), text, meta, kind="malformed", source=source)


def _role(source: Mapping[str, Any]) -> Role:
    if str(source.get("type", "")).endswith("_output"):
        return "tool"
    role = source.get("role")
    return _ROLES.get(role, "assistant") if isinstance(role, str) else "assistant"
