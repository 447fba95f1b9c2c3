"""Read any conversation we know: our transcripts, chat, Responses or Anthropic JSON, Claude Code and Codex logs.

The kind is found by looking at the content, never at the file's name. Lines that say nothing about the conversation are
passed over; a file that holds no conversation at all is an error that says what was expected.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from compact.exceptions import CompactError

Format = Literal["chat", "responses", "anthropic"]
MomentKind = Literal["user", "generation", "tool", "compaction"]


class UnreadableLog(CompactError):
    """The input holds no conversation that we know."""


@dataclass(slots=True)
class Moment:
    """One thing that happened, for the viewer: when, what, and what it cost."""

    kind: MomentKind
    name: str
    started_at: str | None = None
    ended_at: str | None = None
    model: str | None = None
    usage: Mapping[str, int] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    payload: Mapping[str, Any] = field(default_factory=dict)
    is_error: bool = False


@dataclass(slots=True)
class Conversation:
    """Messages in a provider's format, with whatever else the log told."""

    items: list[dict[str, Any]]
    source: str = "messages"
    session_id: str | None = None
    format: Format | None = None
    model: str | None = None
    window_tokens: int | None = None
    tools: list[Any] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)


def read_conversation(text: str) -> Conversation:
    """The conversation in a text."""
    from compact.importers import claude_code, codex

    document = _document(text)
    if document is not None:
        return _from_document(document)
    lines = list(_lines(text))
    if any(claude_code.recognises(line) for line in lines):
        return claude_code.read(lines)
    if any(codex.recognises(line) for line in lines):
        return codex.read(lines)
    if len(lines) == 1 and "messages" in lines[0]:
        return _from_document(lines[0])
    items = [line for line in lines if _is_message(line)]
    if not items:
        raise UnreadableLog(
            "no conversation found: expected a JSON list of messages, an object with `messages`, one message a line, "
            "or a session log of Claude Code or Codex"
        )
    return Conversation(items)


def _document(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _lines(text: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            # The last line of a log that is being written may be half there.
            if number == text.count("\n") + 1:
                return
            raise UnreadableLog(f"line {number} is not JSON: {error}") from None
        if isinstance(value, dict):
            yield value


def _from_document(document: Any) -> Conversation:
    if isinstance(document, list):
        items = [item for item in document if isinstance(item, dict) and _is_message(item)]
        if items:
            return Conversation(items)
    if isinstance(document, dict):
        for name in ("messages", "input"):
            if isinstance(document.get(name), list):
                made = _from_document(document[name])
                made.tools = list(document.get("tools") or ())
                made.model = document.get("model")
                made.session_id = document.get("session_id") or document.get("id")
                return made
        if _is_message(document):
            return Conversation([document])
    raise UnreadableLog("no conversation found: expected a JSON list of messages or an object with `messages`")


def _is_message(item: Mapping[str, Any]) -> bool:
    return "role" in item or item.get("type") in _RESPONSES


_RESPONSES = {"message", "function_call", "function_call_output", "reasoning", "custom_tool_call", "compaction"}


def text_blocks(content: Any) -> str:
    """The text of Anthropic or Responses content."""
    if isinstance(content, str):
        return content
    if isinstance(content, Iterable):
        return "\n".join(
            str(block.get("text", "")) for block in content if isinstance(block, Mapping) and "text" in block
        )
    return ""
