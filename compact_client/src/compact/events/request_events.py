"""Events of requests: a prompt as it was sent, with its parts, and requests that could not be recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, NotRequired, TypedDict

from compact.events.base import OPTIONAL, PRIVATE, TOOL_NAME, Event
from compact.events.phrases import format_count, format_number, join_parts

__all__ = [
    "GapEvent",
    "PartName",
    "PromptChange",
    "PromptPart",
    "PromptSource",
    "RequestClass",
    "RequestEvent",
    "RequestUsage",
]

PartName = Literal[
    "system",
    "tools",
    "memory",
    "user",
    "assistant",
    "thinking",
    "tool_result",
    "image",
    "summary",
    "pinned",
    "unknown",
]
"""The parts of a prompt, in the order in which pages draw them."""
PromptSource = Literal["gateway", "library", "log", "otlp"]
PromptChange = Literal["start", "append", "edit", "branch", "clear", "compaction"]
"""The difference to the request before: the first one, new messages at the end, another message in the place of one,
an earlier prompt that is continued in another way, tool results that were cleared, and a compaction."""
RequestClass = Literal["main", "subagent", "compaction", "title", "tokens", "probe", "auxiliary"]


class PromptPart(TypedDict):
    """One part of a prompt. The tokens of all parts add up to the prompt's."""

    part: PartName
    name: NotRequired[Annotated[str, TOOL_NAME]]
    """The tool, the MCP server, the file or the memory file."""
    tokens: int
    messages: NotRequired[int]


class RequestUsage(TypedDict):
    """The tokens of the call as the provider counted them. The input includes cached tokens."""

    input_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEvent(Event):
    """One prompt as it was sent, with its parts and the provider's usage."""

    name: ClassVar[str] = "compact.request"

    source: PromptSource
    model: str | None
    api: str
    request_class: RequestClass
    turn: int | None
    change: PromptChange | None
    tokens: int
    parts: Sequence[PromptPart]
    message_count: int
    new_messages: int
    usage: RequestUsage | None = field(default=None, metadata=OPTIONAL)
    previous: str | None = field(default=None, metadata=OPTIONAL)
    http_status: int | None = field(default=None, metadata=OPTIONAL)
    kept: int = field(default=0, metadata=PRIVATE)
    prompt: Sequence[str] = field(default=(), metadata=PRIVATE)

    def line(self) -> str:
        messages = f"{format_number(self.tokens)} tokens in {format_count(self.message_count or 0, 'message')}"
        parts = [part for part in self.parts or () if isinstance(part, Mapping)]
        largest = max(parts, key=lambda part: part.get("tokens") or 0, default=None)
        share = f", most in {str(largest.get('part')).replace('_', ' ')}" if largest else ""
        return join_parts(None if self.change in (None, "append") else self.change, f"{messages}{share}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GapEvent(Event):
    """Requests that were forwarded but not recorded."""

    name: ClassVar[str] = "compact.gap"

    source: PromptSource
    request_count: int
    bytes_dropped: int
    reason: Literal["recorder_busy", "body_too_large", "unreadable", "recorder_restarted"]

    def line(self) -> str:
        requests = format_count(self.request_count or 0, "request")
        return join_parts(f"{requests} not recorded", str(self.reason or "").replace("_", " "))
