"""OpenAI chat completions with compaction. Works with any client that has `chat.completions.create`.

chat = ChatCompletions(openai.OpenAI(), manager, session_id="s1")
response = chat.create(model="gpt-5", messages=history, tools=tools)
"""

from __future__ import annotations

from typing import Any

from compact.integrations.model_call import CallOptions, ModelCall
from compact.manager import CompactManager


class ChatCompletions:
    """The client's `chat.completions`, with the messages of each call checked against the context window.

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
            return {
                "tools": arguments.get("tools") or None,
                "output_schema": arguments.get("response_format") or None,
                "format": "chat",
            }

        return ModelCall(self.manager, self.session_id, arguments["messages"], options=options)

    def _send(self, arguments: dict[str, Any], messages: list[Any]) -> Any:
        return self._client.chat.completions.create(**{**arguments, "messages": messages})
