"""The requests of each provider's API, as far as a compaction reads them. Clients and the gateway share this table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from compact.engine.call import CallOptions
from compact.messages import text_of


class Fields(Protocol):
    """The fields of a request."""

    def get(self, name: str, /) -> Any:
        """Return a field, or None."""


@dataclass(frozen=True, slots=True)
class ModelApi:
    """One API."""

    items_key: str
    """The field with the messages."""
    paths: tuple[str, ...]
    """The ends of the URL paths of requests to a model."""
    read_options: Callable[[Fields], CallOptions]
    """Returns the parts of a request that take up space next to the messages."""
    is_kept_by_server: Callable[[Fields], bool] = lambda fields: False
    """Returns True if the server adds its own copy of the conversation, so that the request contains only a part."""


def _anthropic_options(fields: Fields) -> CallOptions:
    system, tools = fields.get("system"), fields.get("tools")
    return {
        "tools": list(tools) if tools else None,
        "instructions": text_of(system) if system else None,
        "output_schema": fields.get("output_config") or fields.get("output_format") or None,
        "format": "anthropic",
    }


def _chat_options(fields: Fields) -> CallOptions:
    return {
        "tools": _list(fields.get("tools")),
        "output_schema": fields.get("response_format") or None,
        "format": "chat",
    }


def _responses_options(fields: Fields) -> CallOptions:
    instructions, text = fields.get("instructions"), fields.get("text")
    return {
        "tools": _list(fields.get("tools")),
        "instructions": text_of(instructions) if instructions else None,
        "output_schema": (text.get("format") if isinstance(text, dict) else None) or None,
        "format": "responses",
    }


def _gemini_options(fields: Fields) -> CallOptions:
    system = fields.get("systemInstruction") or fields.get("system_instruction")
    config = fields.get("generationConfig") or fields.get("generation_config") or {}
    return {
        "tools": _list(fields.get("tools")),
        "instructions": text_of(system.get("parts")) if isinstance(system, dict) else None,
        "output_schema": config.get("responseSchema") or config.get("responseJsonSchema") or None,
        "format": "gemini",
    }


def _list(values: Any) -> list[Any] | None:
    return list(values) if values else None


ANTHROPIC: Final = ModelApi("messages", ("/messages",), _anthropic_options)
CHAT: Final = ModelApi("messages", ("/chat/completions",), _chat_options)
RESPONSES: Final = ModelApi(
    "input",
    ("/responses",),
    _responses_options,
    lambda fields: bool(fields.get("previous_response_id") or fields.get("conversation")),
)
GEMINI: Final = ModelApi(
    "contents",
    (":generateContent", ":streamGenerateContent"),
    _gemini_options,
    lambda fields: bool(fields.get("cachedContent") or fields.get("cached_content")),
)
