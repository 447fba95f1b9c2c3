"""OpenAI chat completions with compaction.

    chat = ChatCompletions(openai.OpenAI(), manager, session_id="s1")
    response = chat.create(model="gpt-5", messages=history, tools=tools)

Works with any client that has `chat.completions.create`. This module does not import the package `openai`.
"""

from __future__ import annotations

from typing import Any

from compact.integrations.client import CompactingClient
from compact.integrations.model_call import CallOptions, Messages


class ChatCompletions(CompactingClient):
    """The client's `chat.completions`, with compaction."""

    def _options(self, arguments: dict[str, Any]) -> CallOptions:
        return {
            "tools": arguments.get("tools") or None,
            "output_schema": arguments.get("response_format") or None,
            "format": "chat",
        }

    def _send(self, arguments: dict[str, Any], messages: Messages) -> Any:
        return self._client.chat.completions.create(**{**arguments, "messages": messages})
