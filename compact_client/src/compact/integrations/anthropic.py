"""Anthropic messages with compaction.

    messages = AnthropicMessages(anthropic.Anthropic(), manager, session_id="s1")
    response = messages.create(model="claude-opus-4-6", max_tokens=1_000, system=system, messages=history)

The client is passed in, so this module does not import the package `anthropic`.
"""

from __future__ import annotations

from typing import Any

from compact.integrations.client import CompactingClient
from compact.integrations.model_call import CallOptions, Messages
from compact.messages import text_of

_OPENING = {"role": "user", "content": "(The conversation so far is summarized below.)"}


class AnthropicMessages(CompactingClient):
    """The client's `messages`, with compaction."""

    def _options(self, arguments: dict[str, Any]) -> CallOptions:
        system = arguments.get("system")
        return {
            "tools": arguments.get("tools") or None,
            "instructions": text_of(system) if system else None,
            "format": "anthropic",
        }

    def _send(self, arguments: dict[str, Any], messages: Messages) -> Any:
        # The API requires a user message first, but the summary is an assistant message.
        if messages and messages[0].get("role") == "assistant":
            messages = [_OPENING, *messages]
        return self._client.messages.create(**{**arguments, "messages": messages})
