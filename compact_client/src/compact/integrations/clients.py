"""Plain clients: Anthropic messages and chat completions, with the same arguments as before.

    messages = AnthropicMessages(anthropic.Anthropic(), manager, session_id="s1")
    answer = messages.create(model=…, max_tokens=…, system=…, tools=…, messages=history)

Each call is checked first, and made again with less when the provider says that it was too long. The caller's list is
never changed. A fault of ours leaves the request as it was.
"""

from __future__ import annotations

from typing import Any

from compact.delivery.stderr import say
from compact.integrations.retry import ashorter, shorter
from compact.manager import CompactManager
from compact.messages import text_of


class _Compacting:
    def __init__(self, client: Any, manager: CompactManager, *, session_id: str) -> None:
        self._client = client
        self.manager = manager
        self.session_id = session_id

    def create(self, **arguments: Any) -> Any:
        """The client's own `create`, with a checked list of messages."""
        items = self._checked(arguments)
        attempt = 0
        while True:
            try:
                answer = self._call({**arguments, "messages": self._sendable(items)})
            except Exception as error:
                attempt += 1
                items = shorter(self.manager, self.session_id, arguments["messages"], error, attempt=attempt)
            else:
                self._report(answer)
                return answer

    async def acreate(self, **arguments: Any) -> Any:
        """`create` of an async client."""
        items = await self._achecked(arguments)
        attempt = 0
        while True:
            try:
                answer = await self._call({**arguments, "messages": self._sendable(items)})
            except Exception as error:
                attempt += 1
                items = await ashorter(self.manager, self.session_id, arguments["messages"], error, attempt=attempt)
            else:
                self._report(answer)
                return answer

    def _checked(self, arguments: dict[str, Any]) -> list[Any]:
        try:
            return self.manager.preflight(self.session_id, arguments["messages"], **self._beside(arguments))
        except Exception as error:
            say("compact", f"not compacted, the input goes out as it is: {type(error).__name__}: {error}")
            return list(arguments["messages"])

    async def _achecked(self, arguments: dict[str, Any]) -> list[Any]:
        try:
            return await self.manager.apreflight(self.session_id, arguments["messages"], **self._beside(arguments))
        except Exception as error:
            say("compact", f"not compacted, the input goes out as it is: {type(error).__name__}: {error}")
            return list(arguments["messages"])

    def _beside(self, arguments: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def _sendable(self, items: list[Any]) -> list[Any]:
        return items

    def _report(self, answer: Any) -> None:
        usage = getattr(answer, "usage", None)
        if usage is not None:
            self.manager.report_usage(self.session_id, usage)

    def _call(self, arguments: dict[str, Any]) -> Any:
        raise NotImplementedError


class ChatCompletions(_Compacting):
    """`ChatCompletions(openai.OpenAI(), manager, session_id="s1").create(…)`; any compatible client."""

    def _call(self, arguments: dict[str, Any]) -> Any:
        return self._client.chat.completions.create(**arguments)

    def _beside(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {
            "tools": arguments.get("tools") or None,
            "output_schema": arguments.get("response_format") or None,
            "format": "chat",
        }


class AnthropicMessages(_Compacting):
    """`AnthropicMessages(anthropic.Anthropic(), manager, session_id="s1").create(model=…, messages=…)`."""

    def _call(self, arguments: dict[str, Any]) -> Any:
        return self._client.messages.create(**arguments)

    def _beside(self, arguments: dict[str, Any]) -> dict[str, Any]:
        system = arguments.get("system")
        return {
            "tools": arguments.get("tools") or None,
            "instructions": text_of(system) if system else None,
            "format": "anthropic",
        }

    def _sendable(self, items: list[Any]) -> list[Any]:
        # The API wants a user's message first, and the summary of what came before is the assistant's.
        if items and items[0].get("role") == "assistant":
            return [{"role": "user", "content": "(The conversation so far is summarised below.)"}, *items]
        return items
