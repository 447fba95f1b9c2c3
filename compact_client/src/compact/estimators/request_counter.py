"""Token counts of messages, tools and requests, on top of any way to count text.

The overhead is OpenAI's published one for chat messages. Other formats differ by one or two tokens.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from compact.estimators.media_tokens import media_tokens
from compact.messages import Message

MESSAGE_TOKENS = 4
"""Overhead of a message: three tokens of framing and one for its role."""
CALL_TOKENS = 8
"""Overhead of a tool call: its id and the JSON around its name and arguments."""
REPLY_TOKENS = 3
"""Tokens that start the assistant's reply."""
TOOL_TOKENS = 8
"""Overhead of a tool's schema."""


class RequestCounter:
    """Counts a request with `count_tokens`, which subclasses implement."""

    name = "counter"

    def count_tokens(self, text: str, model: str = "") -> int:
        raise NotImplementedError

    def count_message(self, message: Message, model: str = "") -> int:
        """Return the tokens of a message with its calls and overhead."""
        content = message.content
        text = content if isinstance(content, str) else message.text
        tokens = MESSAGE_TOKENS + message.extra_tokens + (self.count_tokens(text, model) if text else 0)
        for media in message.media:
            tokens += media_tokens(media, model)
        for call in message.tool_calls:
            tokens += CALL_TOKENS + self.count_tokens(call.name, model) + self.count_tokens(call.arguments, model)
        if message.name:
            tokens += 1 + self.count_tokens(message.name, model)
        return tokens

    def count_tool_schemas(self, tools: Sequence[Any], model: str = "") -> int:
        """Return the tokens of the tools' JSON schemas and their overhead."""
        return sum(TOOL_TOKENS + self.count_tokens(schema_text(tool), model) for tool in tools)

    def count_request(self, messages: Sequence[Message], tools: Sequence[Any] = (), model: str = "") -> int:
        """Return the tokens of a whole request."""
        return self.estimate(messages, model) + (self.count_tool_schemas(tools, model) if tools else 0)

    def estimate(self, messages: Sequence[Message], model: str = "") -> int:
        """Return the tokens of all messages and the start of the reply, or 0 without messages."""
        if not messages:
            return 0
        count = self.count_message
        return REPLY_TOKENS + sum([count(message, model) for message in messages])


def schema_text(tool: Any) -> str:
    """Return a tool's JSON. Accepts a string, a dict, a pydantic model, or an object with the usual attributes."""
    if isinstance(tool, str):
        return tool
    if hasattr(tool, "model_dump"):
        tool = tool.model_dump(exclude_none=True)
    elif not isinstance(tool, dict | list):
        parameters = getattr(tool, "params_json_schema", None) or getattr(tool, "parameters", None)
        tool = {
            "name": getattr(tool, "name", None) or getattr(tool, "__name__", type(tool).__name__),
            "description": getattr(tool, "description", None) or (getattr(tool, "__doc__", None) or ""),
            "parameters": parameters if isinstance(parameters, dict) else {},
        }
    return json.dumps(tool, ensure_ascii=False, separators=(",", ":"), default=str)
