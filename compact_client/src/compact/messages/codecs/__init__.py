"""Codecs for the message formats of the providers.

Every codec keeps the provider's item in `Message.source`, so an unchanged message is encoded to the original item.
Items of an unknown type are passed through as `opaque`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compact.exceptions import CompactError
from compact.messages import Message
from compact.messages.api_rules import PLAIN_RULES
from compact.messages.codecs.anthropic import AnthropicCodec
from compact.messages.codecs.base import Codec
from compact.messages.codecs.chat import ChatCodec
from compact.messages.codecs.gemini import GeminiCodec
from compact.messages.codecs.langchain import LangChainCodec
from compact.messages.codecs.native import NativeCodec
from compact.messages.codecs.responses import ResponsesCodec

__all__ = [
    "AnthropicCodec",
    "ChatCodec",
    "Codec",
    "GeminiCodec",
    "LangChainCodec",
    "NativeCodec",
    "ResponsesCodec",
    "detect_codec",
    "get_codec",
]

NATIVE = NativeCodec()
CHAT = ChatCodec()
PLAIN = ChatCodec(PLAIN_RULES)
"""For messages that are valid in every format of dicts with a role: what is written must be valid in each, too."""
RESPONSES = ResponsesCodec()
ANTHROPIC = AnthropicCodec()
GEMINI = GeminiCodec()
LANGCHAIN = LangChainCodec()

_BY_NAME: dict[str, Codec] = {codec.name: codec for codec in (NATIVE, CHAT, RESPONSES, ANTHROPIC, GEMINI, LANGCHAIN)}


def get_codec(name: str) -> Codec:
    """Return the codec called `native`, `chat`, `responses`, `anthropic`, `gemini` or `langchain`."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise CompactError(f"Unknown message format {name!r}. Use one of: {', '.join(_BY_NAME)}.") from None


def detect_codec(items: Sequence[Any]) -> Codec | None:
    """Return the codec of some items, or None if they are valid in every dict format."""
    if any(isinstance(item, Message) for item in items):
        return NATIVE
    for item in items:
        if not isinstance(item, Mapping):
            continue
        if LANGCHAIN.recognizes(item):
            return LANGCHAIN
        if "tool_calls" in item or "tool_call_id" in item or item.get("role") in ("tool", "function"):
            return CHAT
        if RESPONSES.recognizes(item):
            return RESPONSES
        if ANTHROPIC.recognizes(item):
            return ANTHROPIC
        if GEMINI.recognizes(item):
            return GEMINI
    return None
