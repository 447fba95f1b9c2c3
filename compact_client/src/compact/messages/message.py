"""The provider-independent message.

A Message is immutable: a different text is a different Message. `source` keeps the provider's own item, so that an
unchanged message is sent byte for byte as it was received.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from compact.messages.media import Media, media_in

Role = Literal["system", "developer", "assistant", "user", "tool"]
INSTRUCTION_ROLES: Final[tuple[Role, ...]] = ("system", "developer")
"""The roles with which a host instructs the model."""
Kind = Literal["message", "reasoning", "opaque", "sealed", "malformed"]
"""`malformed` is an item that no provider would accept. `opaque` is an item of an unknown type. `sealed` is a
provider's own compaction item, which is never removed."""

SUMMARY_TAG = "<COMPACT-SUMMARY v"
SPAN_TAG = "[Context Summary - Turns "
POINTER_TAG = "[Externalized Content - artifact:"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call. `arguments` is the JSON text that the model wrote."""

    id: str
    name: str
    arguments: str = ""
    needs_output: bool = True
    """False for hosted tools, whose output is part of the same item or comes from the provider."""
    is_hosted: bool = False
    """True for a call that the provider answers with an item of its own, unless the turn is aborted."""


@dataclass(frozen=True, slots=True)
class Message:
    """One element of a conversation: text, tool calls, tool output, or an opaque item."""

    role: Role
    content: Any = ""
    """A string or a list of parts. Use `text` to read either."""
    meta: dict[str, Any] = field(default_factory=dict)
    tool_calls: tuple[ToolCall, ...] = field(default=(), kw_only=True)
    tool_call_id: str | None = field(default=None, kw_only=True)
    name: str | None = field(default=None, kw_only=True)
    id: str | None = field(default=None, kw_only=True, compare=False)
    kind: Kind = field(default="message", kw_only=True)
    also_answers: tuple[str, ...] = field(default=(), kw_only=True)
    """Ids of further calls that this message answers. An Anthropic message may contain several tool results."""
    links: tuple[str, ...] = field(default=(), kw_only=True, repr=False)
    """Ids that bind this message to others beside calls and outputs, such as that of a server tool."""
    extra_tokens: int = field(default=0, kw_only=True, repr=False)
    """Tokens of encrypted parts."""
    media: tuple[Media, ...] = field(default=(), kw_only=True, repr=False, compare=False)
    """Images, audio and documents. Their tokens depend on the model."""
    source: Mapping[str, Any] | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if self.meta is None:
            object.__setattr__(self, "meta", {})
        if self.content is None:
            object.__setattr__(self, "content", "")
        if not self.media and not isinstance(self.content, str):
            object.__setattr__(self, "media", media_in(self.content))
        calls = self.tool_calls
        if not isinstance(calls, tuple) or any(not isinstance(call, ToolCall) for call in calls):
            object.__setattr__(self, "tool_calls", tuple(map(_as_call, calls)))
        if self.tool_call_id is None and self.role == "tool" and isinstance(self.meta.get("tool_call_id"), str):
            object.__setattr__(self, "tool_call_id", self.meta["tool_call_id"])

    def __hash__(self) -> int:
        return hash((self.role, self.text, self.tool_calls, self.tool_call_id))

    @property
    def text(self) -> str:
        """The content as plain text."""
        content = self.content
        return content if isinstance(content, str) else text_of(content)

    @property
    def answers(self) -> tuple[str, ...]:
        """Ids of the calls whose output this message contains."""
        if self.tool_call_id is None:
            return self.also_answers
        return (self.tool_call_id, *self.also_answers)

    @property
    def is_summary(self) -> bool:
        """True if this is a session summary written by a compaction."""
        return self.role == "assistant" and self.text.startswith(SUMMARY_TAG)

    @property
    def is_replacement(self) -> bool:
        """True if a renderer wrote this in place of compacted messages."""
        return self.role == "assistant" and self.text.startswith((SUMMARY_TAG, SPAN_TAG, POINTER_TAG))

    def to_dict(self) -> dict[str, Any]:
        """Return the provider's own item if there is one, else the message in chat format with its `meta`."""
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
        raise TypeError(f"tool_calls must contain ToolCall objects or dicts, not {type(call).__name__}")
    function = call.get("function") or call
    arguments = function.get("arguments", "")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(id=str(call.get("id", "")), name=str(function.get("name", "")), arguments=text)


def text_of(content: Any) -> str:
    """Return the text of any provider's content: a string, a part, or a list of parts."""
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
