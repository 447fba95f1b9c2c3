"""Messages as the engine sees them, whatever provider they came from.

A Message is never changed after it is made: a different text is a different Message. `source` keeps the
provider's own item, so that what was not touched goes out as it came in, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Role = Literal["system", "developer", "assistant", "user", "tool"]
Kind = Literal["message", "reasoning", "opaque", "sealed"]

SUMMARY_TAG = "<COMPACT-SUMMARY v"
SPAN_TAG = "[Context Summary - Turns "
POINTER_TAG = "[Externalized Content - artifact:"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool; `arguments` is the JSON text the model wrote."""

    id: str
    name: str
    arguments: str = ""
    needs_output: bool = True  # a hosted tool answers inside its own item


@dataclass(frozen=True, slots=True)
class Message:
    """One element of a conversation: a text, calls of tools, their output, or something opaque."""

    role: Role
    content: Any = ""  # str; a list of parts is accepted, `text` reads both
    meta: dict[str, Any] = field(default_factory=dict)
    tool_calls: tuple[ToolCall, ...] = field(default=(), kw_only=True)
    tool_call_id: str | None = field(default=None, kw_only=True)
    name: str | None = field(default=None, kw_only=True)
    id: str | None = field(default=None, kw_only=True, compare=False)
    kind: Kind = field(default="message", kw_only=True)
    also_answers: tuple[str, ...] = field(default=(), kw_only=True)
    """Further calls answered here: one Anthropic message may hold several tool results."""
    extra_tokens: int = field(default=0, kw_only=True, repr=False)
    """What images and encrypted parts weigh beside the text."""
    source: Mapping[str, Any] | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if self.meta is None:
            object.__setattr__(self, "meta", {})
        if self.content is None:
            object.__setattr__(self, "content", "")
        if self.tool_calls and not isinstance(self.tool_calls, tuple):
            object.__setattr__(self, "tool_calls", tuple(self.tool_calls))
        if any(not isinstance(call, ToolCall) for call in self.tool_calls):
            object.__setattr__(self, "tool_calls", tuple(_as_call(call) for call in self.tool_calls))
        if self.tool_call_id is None and self.role == "tool" and isinstance(self.meta.get("tool_call_id"), str):
            object.__setattr__(self, "tool_call_id", self.meta["tool_call_id"])

    def __hash__(self) -> int:
        return hash((self.role, self.text, self.tool_calls, self.tool_call_id))

    @property
    def text(self) -> str:
        """The plain text of any content."""
        content = self.content
        return content if isinstance(content, str) else text_of(content)

    @property
    def answers(self) -> tuple[str, ...]:
        """The ids of the calls whose output this message holds."""
        if self.tool_call_id is None:
            return self.also_answers
        return (self.tool_call_id, *self.also_answers)

    @property
    def is_summary(self) -> bool:
        """Whether this is a session summary that a compaction wrote."""
        return self.role == "assistant" and self.text.startswith(SUMMARY_TAG)

    @property
    def is_replacement(self) -> bool:
        """Whether a renderer wrote this in the place of messages that were compacted."""
        return self.role == "assistant" and self.text.startswith((SUMMARY_TAG, SPAN_TAG, POINTER_TAG))

    def to_dict(self) -> dict[str, Any]:
        """The message as JSON: the provider's own item if it came from one, else chat format with `meta`."""
        if self.source is not None:
            return dict(self.source)
        data: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            data["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in self.tool_calls
            ]
        if self.tool_call_id is not None:
            data["tool_call_id"] = self.tool_call_id
        if self.name is not None:
            data["name"] = self.name
        if self.meta:
            data["meta"] = self.meta
        return data


def _as_call(call: Any) -> ToolCall:
    if isinstance(call, ToolCall):
        return call
    if not isinstance(call, Mapping):
        raise TypeError(f"a tool call is a ToolCall or a dict, not {type(call).__name__}")
    function = call.get("function") or call
    arguments = function.get("arguments", "")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(id=str(call.get("id", "")), name=str(function.get("name", "")), arguments=text)


def text_of(content: Any) -> str:
    """The text in any provider's content: a string, or the text parts of a list in order."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, Mapping):
        for key in ("text", "output", "refusal", "thinking", "content"):
            if key in content:
                return text_of(content[key])
        return ""
    if isinstance(content, Sequence):
        return "\n".join(text for part in content if (text := text_of(part)))
    return str(content)


# `json.dumps` with options makes an encoder for every call; thousands of messages are hashed in a row.
_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


def canonical_json(value: Any) -> bytes:
    """Sorted keys, no spaces, UTF-8; a lone surrogate becomes U+FFFD so that the bytes are always valid."""
    text = _CANONICAL.encode(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def content_hash(value: Any) -> str:
    """The name of a message: SHA-256 of its canonical JSON, without our own `id` and `hash`."""
    if isinstance(value, Mapping) and ("id" in value or "hash" in value):
        value = {key: item for key, item in value.items() if key not in ("id", "hash")}
    return hashlib.sha256(canonical_json(value)).hexdigest()
