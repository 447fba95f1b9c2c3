"""Messages as people read them: a role, texts, tool calls and tool results.

Pure. Reads stored messages in the formats of OpenAI (chat and Responses), Anthropic, Gemini and `compact` itself. Parts
that it does not recognize are shown as JSON, so nothing is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

PREVIEW_CHARS = 90
_MAX_ARGUMENT_CHARS = 40
_SPACES = re.compile(r"\s+")
_SUMMARY_MARKS = re.compile(r"\A\s*</?COMPACT-SUMMARY[^>\n]*>\s*(?:\[Summary v[^\]\n]*\]\s*)?")
_TEXT_TYPES = {"text", "input_text", "output_text", "summary_text"}
_MEDIA_TYPES = {
    **dict.fromkeys(("image", "image_url", "input_image", "output_image", "image_generation_call"), "image"),
    **dict.fromkeys(("audio", "input_audio", "output_audio"), "audio"),
    **dict.fromkeys(("document", "file", "input_file"), "file"),
}
_CALL_TYPES = {"tool_use", "tool_call", "function", "function_call", "custom_tool_call", "server_tool_use", "mcp_call"}
_RESULT_TYPES = {
    *("tool_result", "function_call_output", "custom_tool_call_output", "web_search_tool_result"),
    "tool_call_response",  # OpenTelemetry
}
_REASONING_TYPES = {"reasoning", "thinking", "redacted_thinking"}
# Keys of a message that are shown elsewhere or that only a provider's API needs.
_FRAME_KEYS = {"id", "hash", "role", "type", "name", "status", "meta", "index", "phase"}


class PartKind(StrEnum):
    TEXT = "text"
    CALL = "call"
    RESULT = "result"
    REASONING = "reasoning"
    MEDIA = "media"
    DATA = "data"


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a message. `name` is that of the tool, `text` its arguments or its result."""

    kind: PartKind
    text: str
    name: str = ""
    call_id: str = ""
    arguments: tuple[tuple[str, str], ...] = ()

    @property
    def is_long(self) -> bool:
        """True for a part that starts folded."""
        return len(self.text) > 1_500 or self.text.count("\n") > 24

    @property
    def signature(self) -> str:
        """A tool call in a line: `read_file(path="billing/export.py")`."""
        inner = ", ".join(f"{name}={_shorten(value, _MAX_ARGUMENT_CHARS)}" for name, value in self.arguments)
        return f"{self.name or 'tool'}({inner or _shorten(self.text, _MAX_ARGUMENT_CHARS)})"


@dataclass(frozen=True, slots=True)
class ChatMessage:
    role: str
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """All text of the message, as a person would quote it."""
        return "\n".join(part.signature if part.kind is PartKind.CALL else part.text for part in self.parts)

    def truncate(self, length: int) -> tuple[ChatMessage, bool]:
        """Return the message with at most `length` characters per part, and whether something is missing."""
        if all(len(part.text) <= length for part in self.parts):
            return self, False
        parts = tuple(
            replace(part, text=part.text[:length], arguments=()) if len(part.text) > length else part
            for part in self.parts
        )
        return replace(self, parts=parts), True

    @property
    def preview(self) -> str:
        """The first words of the message in one line. Tool calls come first, because they are what happened."""
        calls = [part.signature for part in self.parts if part.kind is PartKind.CALL]
        words = [_preview(part) for part in self.parts if part.kind is not PartKind.CALL]
        return _shorten(" ".join(filter(None, [*calls, *words])), PREVIEW_CHARS)


def strip_summary_marks(text: str) -> str:
    """Return a summary without the lines that tell a model that the message is one."""
    return _SUMMARY_MARKS.sub("", text)


def parse_message(message: Any) -> ChatMessage:
    """Read a stored message of any format."""
    if not isinstance(message, Mapping):
        return ChatMessage("", tuple(_content_parts(message)))
    role = str(message.get("role") or _role_by_type(message))
    parts = tuple(part for part in _message_parts(message, role) if part.text or part.name)
    return ChatMessage(role, parts)


def _role_by_type(message: Mapping[str, Any]) -> str:
    """Return the role of a Responses item, which has only a type."""
    item_type = _type_of(message)
    if item_type in _RESULT_TYPES:
        return "tool"
    return "assistant" if item_type in _CALL_TYPES | _REASONING_TYPES else item_type


def _message_parts(message: Mapping[str, Any], role: str) -> Iterator[Part]:
    if _type_of(message) in _CALL_TYPES | _RESULT_TYPES | _REASONING_TYPES | set(_MEDIA_TYPES):
        yield _part(message)
        return
    content = message.get("content", message.get("text", message.get("parts")))
    if role == "tool" and isinstance(content, str):
        yield Part(PartKind.RESULT, content, str(message.get("name") or ""), str(message.get("tool_call_id") or ""))
    else:
        yield from _content_parts(content)
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        yield _part({**call, "type": "tool_call"} if isinstance(call, Mapping) else call)
    known = _FRAME_KEYS | {"content", "text", "parts", "tool_calls", "tool_call_id"}
    rest = {key: value for key, value in message.items() if key not in known and value not in (None, "", [], {})}
    if rest:
        yield Part(PartKind.DATA, _to_json(rest))


def _content_parts(content: Any) -> Iterator[Part]:
    if content is None:
        return
    for item in content if isinstance(content, list) else [content]:
        yield _part(item)


def _part(item: Any) -> Part:
    if isinstance(item, str):
        return Part(PartKind.TEXT, strip_summary_marks(item))
    if not isinstance(item, Mapping):
        return Part(PartKind.DATA, _to_json(item))
    item_type = _type_of(item)
    if item_type in _CALL_TYPES or "functionCall" in item:
        return _call(item)
    if item_type in _RESULT_TYPES or "functionResponse" in item:
        return _result(item)
    if item_type in _REASONING_TYPES:
        return Part(PartKind.REASONING, _text(item) or "Encrypted reasoning")
    if item_type in _MEDIA_TYPES or "inlineData" in item:
        return Part(PartKind.MEDIA, f"[{_MEDIA_TYPES.get(item_type, 'media')}]")
    text = _plain_text(item, item_type)
    return Part(PartKind.DATA, _to_json(item)) if text is None else Part(PartKind.TEXT, strip_summary_marks(text))


def _plain_text(item: Mapping[str, Any], item_type: str) -> str | None:
    """Return the text of a text part, or None for other parts. OpenTelemetry calls it `content`."""
    text = next((item[key] for key in ("text", "refusal", "content") if key in item), None)
    is_text = item_type in _TEXT_TYPES or not item_type or item_type == "refusal"
    return text if is_text and isinstance(text, str) else None


def _call(item: Mapping[str, Any]) -> Part:
    function = next((item[key] for key in ("function", "functionCall") if isinstance(item.get(key), Mapping)), item)
    raw = next((function[key] for key in ("arguments", "input", "args") if function.get(key) is not None), "")
    arguments = _from_json(raw) if isinstance(raw, str) else raw
    pairs = (
        tuple((str(name), _to_json(value)) for name, value in arguments.items())
        if isinstance(arguments, Mapping)
        else ()
    )
    text = raw if isinstance(raw, str) and not pairs else json.dumps(arguments, indent=2, ensure_ascii=False)
    call_id = str(item.get("call_id") or item.get("id") or "")
    return Part(PartKind.CALL, text, str(function.get("name") or ""), call_id, pairs)


def _result(item: Mapping[str, Any]) -> Part:
    source = item["functionResponse"] if isinstance(item.get("functionResponse"), Mapping) else item
    value = next((source[key] for key in ("output", "content", "response") if source.get(key) is not None), "")
    call_id = str(item.get("tool_use_id") or item.get("call_id") or "")
    return Part(PartKind.RESULT, _text(value), str(source.get("name") or ""), call_id)


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
    if (item_type := _type_of(value)) in _MEDIA_TYPES:
        return f"[{_MEDIA_TYPES[item_type]}]"
    for key in ("text", "thinking", "summary", "content", "output"):
        if value.get(key):
            return _text(value[key])
    return "" if item_type in _REASONING_TYPES else _to_json(value)


def _preview(part: Part) -> str:
    # The rest of a long text is not in the preview.
    text = part.text[: PREVIEW_CHARS * 4]
    return f"Reasoning: {text}" if part.kind is PartKind.REASONING else text


def _shorten(text: str, length: int) -> str:
    line = _SPACES.sub(" ", text[: length * 4]).strip()
    if len(line) <= length and len(text) <= length * 4:
        return line
    return f"{line[: length - 1].rstrip()}…"


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
