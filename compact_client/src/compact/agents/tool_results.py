"""Tool results in Anthropic's format, in which several agents write them: images, and results that were cleared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from compact.ledgers.foreign_compaction import LogFate, LogMessage
from compact.messages.json_values import as_list, as_mapping

_CLEARED = "[Old tool result content cleared]"


def without_images(content: Any) -> Any:
    """Return content with a note in place of each image."""
    if not isinstance(content, list):
        return content
    return [_image_note(block) if as_mapping(block).get("type") == "image" else block for block in content]


def _image_note(block: Mapping[str, Any]) -> dict[str, Any]:
    data = as_mapping(block.get("source")).get("data") or block.get("data")
    return {"type": "text", "text": f"[image, {len(data) if isinstance(data, str) else 0:,} base64 characters]"}


def clear_results(item: dict[str, Any], cleared: Set[str]) -> dict[str, Any]:
    """Return a message with a note in place of the results of some calls, or the message itself if it has none."""
    blocks = as_list(item.get("content"))
    if not any(as_mapping(block).get("tool_use_id") in cleared for block in blocks):
        return item
    content = [
        {**block, "content": _CLEARED} if as_mapping(block).get("tool_use_id") in cleared else block for block in blocks
    ]
    return {**item, "content": content}


def clear_prompt(
    before: Iterable[LogMessage], cleared: Set[str]
) -> tuple[tuple[LogMessage, ...], dict[str, tuple[LogFate, str]]]:
    """Return a prompt without the results of some calls, and the fate of each of its messages."""
    after: list[LogMessage] = []
    fates: dict[str, tuple[LogFate, str]] = {}
    for message in before:
        item = clear_results(message.item, cleared)
        is_cleared = item is not message.item
        fates[message.id] = ("cleared", "old tool result") if is_cleared else ("kept", "not a cleared tool result")
        after.append(LogMessage(message.id, item, message.at, message.line) if is_cleared else message)
    return tuple(after), fates
