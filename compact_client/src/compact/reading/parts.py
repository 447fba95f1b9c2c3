"""Parsed messages: a role, and its parts as people read them. Texts, tool calls, tool results, media.

Reads stored messages in the formats of OpenAI (chat and Responses), Anthropic, Gemini, OpenTelemetry and `compact`
itself. Parts that it does not recognize are JSON, so nothing is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from compact.messages import Message, text_of
from compact.messages.block_kinds import BlockKind, Content, is_call, is_reasoning, kind_of
from compact.reading.call_arguments import read_arguments

__all__ = ["Content", "Part", "is_part", "read_parts", "role_of", "shorten", "spoken_text", "strip_summary_marks"]

_SUMMARY_MARKS: Final = re.compile(r"\A\s*</?COMPACT-SUMMARY[^>\n]*>\s*(?:\[Summary v[^\]\n]*\]\s*)?")
# Keys of a message that are shown elsewhere or that only a provider's API needs.
_FRAME_KEYS: Final = {"id", "hash", "role", "type", "name", "status", "meta", "index", "phase"}
_CONTENT_KEYS: Final = {"content", "text", "parts", "tool_calls", "tool_call_id"}
_SPACES: Final = re.compile(r"\s+")
_MAX_ARGUMENT_CHARS: Final = 40
_MAX_SCREEN_CHARS: Final = 1_500
_MAX_SCREEN_LINES: Final = 24
_UNREADABLE_REASONING: Final = "Encrypted reasoning"


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a message. `name` is that of the tool, `text` its arguments or its result."""

    kind: Content
    text: str
    name: str = ""
    call_id: str = ""
    arguments: tuple[tuple[str, str], ...] = ()

    @property
    def is_long(self) -> bool:
        """True for a text of more than a screen."""
        return len(self.text) > _MAX_SCREEN_CHARS or self.text.count("\n") > _MAX_SCREEN_LINES

    @property
    def signature(self) -> str:
        """A tool call in a line: `read_file(path="billing/export.py")`."""
        inner = ", ".join(f"{name}={shorten(value, _MAX_ARGUMENT_CHARS)}" for name, value in self.arguments)
        return f"{self.name or 'tool'}({inner or shorten(self.text, _MAX_ARGUMENT_CHARS)})"


def shorten(text: str, length: int) -> str:
    """Return the beginning of a text in one line."""
    line = _SPACES.sub(" ", text[: length * 4]).strip()
    if len(line) <= length and len(text) <= length * 4:
        return line
    return f"{line[: length - 1].rstrip()}…"


def strip_summary_marks(text: str) -> str:
    """Return a summary without the lines that tell a model that the message is one."""
    return _SUMMARY_MARKS.sub("", text)


def spoken_text(message: Message) -> str:
    """Return the text of a message without its reasoning and without its calls."""
    blocks = message.source.get("content", message.source.get("parts")) if message.source else None
    if not isinstance(blocks, list) or not any(is_reasoning(block) or is_call(block) for block in blocks):
        return message.text
    return text_of([block for block in blocks if not is_reasoning(block) and not is_call(block)])


def role_of(message: Mapping[str, Any]) -> str:
    """Return the role of a stored message. An item of the Responses API has only a type."""
    if message.get("role"):
        return str(message["role"])
    kind = kind_of(message)
    if kind is not None and kind.content is Content.RESULT:
        return "tool"
    if kind is not None and kind.content in (Content.CALL, Content.REASONING):
        return "assistant"
    return _type_of(message)


def read_parts(message: Any) -> Iterator[Part]:
    """Yield the parts of a stored message in any format."""
    if not isinstance(message, Mapping):
        yield from _content_parts(message)
        return
    kind = kind_of(message)
    if kind is not None and kind.content in (Content.CALL, Content.RESULT, Content.REASONING, Content.MEDIA):
        yield _part(message)
        return
    content = message.get("content", message.get("text", message.get("parts")))
    if role_of(message) == "tool" and isinstance(content, str):
        name, call_id = str(message.get("name") or ""), str(message.get("tool_call_id") or "")
        yield Part(Content.RESULT, content, name, call_id)
    else:
        yield from _content_parts(content)
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        yield _part({**call, "type": "tool_call"} if isinstance(call, Mapping) else call)
    yield from _unknown_fields(message)


def _unknown_fields(message: Mapping[str, Any]) -> Iterator[Part]:
    known = _FRAME_KEYS | _CONTENT_KEYS
    rest = {key: value for key, value in message.items() if key not in known and value not in (None, "", [], {})}
    if rest:
        yield Part(Content.DATA, _to_json(rest))


def _content_parts(content: Any) -> Iterator[Part]:
    if content is None:
        return
    for item in content if isinstance(content, list) else [content]:
        yield _part(item)


def _part(item: Any) -> Part:
    if isinstance(item, str):
        return Part(Content.TEXT, strip_summary_marks(item))
    if not isinstance(item, Mapping):
        return Part(Content.DATA, _to_json(item))
    kind = kind_of(item)
    match kind.content if kind is not None else None:
        case Content.CALL:
            return _call(item)
        case Content.RESULT:
            return _result(item)
        case Content.REASONING:
            return Part(Content.REASONING, _text(item) or _UNREADABLE_REASONING)
        case Content.MEDIA if kind is not None:
            return Part(Content.MEDIA, _media_note(kind))
    text = _plain_text(item, kind)
    return Part(Content.DATA, _to_json(item)) if text is None else Part(Content.TEXT, strip_summary_marks(text))


def _plain_text(item: Mapping[str, Any], kind: BlockKind | None) -> str | None:
    """Return the text of a text part, or None for other parts. OpenTelemetry calls it `content`."""
    text = next((item[key] for key in ("text", "refusal", "content") if key in item), None)
    is_text = kind.content is Content.TEXT if kind is not None else not _type_of(item)
    return text if is_text and isinstance(text, str) else None


def _media_note(kind: BlockKind) -> str:
    return f"[{kind.media}]"


def _pairs(arguments: Any) -> tuple[tuple[str, str], ...]:
    items = arguments.items() if isinstance(arguments, Mapping) else ()
    return tuple((str(name), _to_json(value)) for name, value in items)


def _call(item: Mapping[str, Any]) -> Part:
    function = next((item[key] for key in ("function", "functionCall") if isinstance(item.get(key), Mapping)), item)
    raw = next((function[key] for key in ("arguments", "input", "args") if function.get(key) is not None), "")
    arguments = read_arguments(raw)
    pairs = _pairs(arguments)
    text = raw if isinstance(raw, str) and not pairs else json.dumps(arguments, indent=2, ensure_ascii=False)
    call_id = str(item.get("call_id") or item.get("id") or function.get("id") or "")
    return Part(Content.CALL, text, str(function.get("name") or ""), call_id, pairs)


def _result(item: Mapping[str, Any]) -> Part:
    source = item["functionResponse"] if isinstance(item.get("functionResponse"), Mapping) else item
    value = next((source[key] for key in ("output", "content", "response") if source.get(key) is not None), "")
    call_id = str(item.get("tool_use_id") or item.get("call_id") or source.get("id") or "")
    return Part(Content.RESULT, _text(value), str(source.get("name") or ""), call_id)


def is_part(item: Mapping[str, Any]) -> bool:
    """True for a text or an attachment inside a message. Items of the Responses API are messages of their own."""
    kind = kind_of(item)
    is_content = kind is not None and not kind.is_item and kind.content in (Content.TEXT, Content.MEDIA)
    return is_content and "role" not in item


def _type_of(item: Mapping[str, Any]) -> str:
    return str(item.get("type") or "")


def _text(value: Any) -> str:
    """Return the text inside a value of any format, or its JSON if it has none."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(filter(None, map(_text, value)))
    if not isinstance(value, Mapping):
        return "" if value is None else _to_json(value)
    kind = kind_of(value)
    if kind is not None and kind.content is Content.MEDIA:
        return _media_note(kind)
    for key in ("text", "thinking", "summary", "content", "output"):
        if value.get(key):
            return _text(value[key])
    return "" if is_reasoning(value) else _to_json(value)


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
