"""Read a conversation from text: JSON in any supported message format, a transcript, or a session log.

The format is detected from the content, not from the file name. Lines that are not part of the conversation are
skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from compact.exceptions import CompactError
from compact.importers import claude_code, codex
from compact.importers.conversation import Conversation

_RESPONSES_TYPES = {"message", "function_call", "function_call_output", "reasoning", "custom_tool_call", "compaction"}


class UnreadableLog(CompactError):
    """The input contains no conversation in a supported format."""


def read_conversation(text: str) -> Conversation:
    """Return the conversation in a JSON document or in JSON lines."""
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if document is not None:
        return _read_document(document)
    lines = list(_json_lines(text))
    if any(claude_code.is_log_line(line) for line in lines):
        return claude_code.read_log(lines)
    if any(codex.is_log_line(line) for line in lines):
        return codex.read_log(lines)
    if len(lines) == 1 and "messages" in lines[0]:
        return _read_document(lines[0])
    items = [line for line in lines if _is_message(line)]
    if not items:
        raise UnreadableLog(
            "No conversation found. Expected a JSON list of messages, an object with `messages`, one message per line, "
            "or a session log of Claude Code or Codex."
        )
    return Conversation(items)


def _json_lines(text: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            # The last line of a log that is still being written can be incomplete.
            if number == text.count("\n") + 1:
                return
            raise UnreadableLog(f"Line {number} is not valid JSON: {error}") from None
        if isinstance(value, dict):
            yield value


def _read_document(document: Any) -> Conversation:
    if isinstance(document, list):
        items = [item for item in document if isinstance(item, dict) and _is_message(item)]
        if items:
            return Conversation(items)
    if isinstance(document, dict):
        nested = next((document[name] for name in ("messages", "input") if isinstance(document.get(name), list)), None)
        if nested is not None:
            conversation = _read_document(nested)
            conversation.tools = list(document.get("tools") or ())
            conversation.model = document.get("model")
            conversation.session_id = document.get("session_id") or document.get("id")
            return conversation
        if _is_message(document):
            return Conversation([document])
    raise UnreadableLog("No conversation found. Expected a JSON list of messages or an object with `messages`.")


def _is_message(item: Mapping[str, Any]) -> bool:
    return "role" in item or item.get("type") in _RESPONSES_TYPES
