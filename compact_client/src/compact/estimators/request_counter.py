"""How the parts of a request add up, whatever counts the text.

The overhead figures are OpenAI's published ones for chat messages; other formats differ by a token or two.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from compact.messages import Message

MESSAGE_TOKENS = 4  # three that frame a message and one for its role
CALL_TOKENS = 8  # the JSON around a call's name and arguments, and its id
REPLY_TOKENS = 3  # every reply is primed with the assistant's opening
TOOL_TOKENS = 8  # the wrapping of one tool's schema


class RequestCounter:
    """Sums a request from `count_tokens`; subclasses say how a text is counted."""

    name = "counter"

    def count_tokens(self, text: str, model: str = "") -> int:
        raise NotImplementedError

    def count_message(self, message: Message, model: str = "") -> int:
        """One message with its calls and its framing."""
        content = message.content
        text = content if isinstance(content, str) else message.text
        tokens = MESSAGE_TOKENS + message.extra_tokens + (self.count_tokens(text, model) if text else 0)
        for call in message.tool_calls:
            tokens += CALL_TOKENS + self.count_tokens(call.name, model) + self.count_tokens(call.arguments, model)
        if message.name:
            tokens += 1 + self.count_tokens(message.name, model)
        return tokens

    def count_tool_schemas(self, tools: Sequence[Any], model: str = "") -> int:
        """The tools as the provider sees them: their JSON and its wrapping."""
        return sum(TOOL_TOKENS + self.count_tokens(schema_text(tool), model) for tool in tools)

    def count_request(self, messages: Sequence[Message], tools: Sequence[Any] = (), model: str = "") -> int:
        """Everything that is sent."""
        return self.estimate(messages, model) + (self.count_tool_schemas(tools, model) if tools else 0)

    def estimate(self, messages: Sequence[Message], model: str = "") -> int:
        """All messages and the priming of the reply; nothing is nothing."""
        if not messages:
            return 0
        count = self.count_message
        return REPLY_TOKENS + sum([count(message, model) for message in messages])


def schema_text(tool: Any) -> str:
    """The JSON of a tool: a dict, a pydantic model, or an object with name, description and parameters."""
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
