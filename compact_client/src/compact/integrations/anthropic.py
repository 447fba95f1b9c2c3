"""Anthropic messages with compaction.

messages = AnthropicMessages(anthropic.Anthropic(), manager, session_id="s1")
response = messages.create(model="claude-opus-4-6", max_tokens=1_000, system=system, messages=history)
"""

from __future__ import annotations

from typing import Any

from compact.integrations.model_call import CallOptions, ModelCall
from compact.manager import CompactManager
from compact.messages import text_of

_OPENING = {"role": "user", "content": "(The conversation so far is summarized below.)"}


class AnthropicMessages:
    """The client's `messages`, with the messages of each call checked against the context window.

    A request that the provider rejects as too long is shortened and sent again. The caller's list is never changed.
    """

    def __init__(self, client: Any, manager: CompactManager, *, session_id: str) -> None:
        self._client = client
        self.manager = manager
        self.session_id = session_id

    def create(self, **arguments: Any) -> Any:
        """Call the client's `create` with the same arguments."""
        return self._model_call(arguments).run(lambda messages: self._send(arguments, messages))

    async def acreate(self, **arguments: Any) -> Any:
        """Call the `create` of an async client."""
        return await self._model_call(arguments).arun(lambda messages: self._send(arguments, messages))

    def _model_call(self, arguments: dict[str, Any]) -> ModelCall:
        def options() -> CallOptions:
            system = arguments.get("system")
            return {
                "tools": arguments.get("tools") or None,
                "instructions": text_of(system) if system else None,
                "format": "anthropic",
            }

        return ModelCall(self.manager, self.session_id, arguments["messages"], options=options)

    def _send(self, arguments: dict[str, Any], messages: list[Any]) -> Any:
        # The API requires a user message first, but the summary is an assistant message.
        if messages and messages[0].get("role") == "assistant":
            messages = [_OPENING, *messages]
        return self._client.messages.create(**{**arguments, "messages": messages})
