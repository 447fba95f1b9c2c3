"""The APIs of the providers, as far as a prompt and its answer need them. One module for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from compact.gateway.recorder.protocols.anthropic import AnthropicProtocol
from compact.gateway.recorder.protocols.base import Answer, AnswerReader, Protocol, RequestBody
from compact.gateway.recorder.protocols.chat import ChatProtocol
from compact.gateway.recorder.protocols.gemini import GeminiProtocol
from compact.gateway.recorder.protocols.responses import ResponsesProtocol

__all__ = ["PROTOCOLS", "Answer", "AnswerReader", "Protocol", "RequestBody"]

PROTOCOLS: Final[Mapping[str, Protocol]] = {
    protocol.name: protocol for protocol in (AnthropicProtocol(), ResponsesProtocol(), ChatProtocol(), GeminiProtocol())
}
