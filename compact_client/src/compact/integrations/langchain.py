"""LangChain 1.x: compaction as a middleware of `create_agent`.

    agent = create_agent(model, tools, middleware=[CompactMiddleware(manager)])

Only the request is changed, never the graph's state: the whole history stays in the checkpoint. The handler is called
again with less when the provider says that the input was too long. A fault of ours leaves the request as it was.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages, convert_to_openai_messages
from langchain_core.utils.function_calling import convert_to_openai_tool

from compact.delivery.stderr import say
from compact.integrations.retry import ashorter, shorter
from compact.manager import CompactManager

SessionId = str | Callable[[Any], str] | None


class CompactMiddleware(AgentMiddleware[Any, Any]):  # type: ignore[misc]
    """Checks every model call; `session_id` may be a function of the request, and is the thread's id by default."""

    def __init__(self, manager: CompactManager, *, session_id: SessionId = None) -> None:
        super().__init__()
        self.manager = manager
        self._session_id = session_id

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        session_id, pairs = self._session(request), _Pairs(request.messages)
        try:
            items = self.manager.preflight(
                session_id,
                pairs.items,
                tools=_tools(request),
                instructions=request.system_prompt,
                format="chat",
            )
        except Exception as error:
            _tell(error)
            items = pairs.items
        attempt = 0
        while True:
            try:
                response = handler(request.override(messages=pairs.messages(items)))
            except Exception as error:
                attempt += 1
                items = shorter(self.manager, session_id, pairs.items, error, attempt=attempt)
            else:
                self._report(session_id, response)
                return response

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        session_id, pairs = self._session(request), _Pairs(request.messages)
        try:
            items = await self.manager.apreflight(
                session_id,
                pairs.items,
                tools=_tools(request),
                instructions=request.system_prompt,
                format="chat",
            )
        except Exception as error:
            _tell(error)
            items = pairs.items
        attempt = 0
        while True:
            try:
                response = await handler(request.override(messages=pairs.messages(items)))
            except Exception as error:
                attempt += 1
                items = await ashorter(self.manager, session_id, pairs.items, error, attempt=attempt)
            else:
                self._report(session_id, response)
                return response

    def _session(self, request: Any) -> str:
        if callable(self._session_id):
            return self._session_id(request)
        return self._session_id or _thread_id() or "langchain"

    def _report(self, session_id: str, response: Any) -> None:
        messages = [response] if isinstance(response, AIMessage) else getattr(response, "result", ())
        for message in messages:
            usage = getattr(message, "usage_metadata", None)
            if usage and usage.get("input_tokens"):
                self.manager.report_usage(session_id, usage)
                return


class _Pairs:
    """LangChain's messages and the same as chat dicts; what was not changed goes back as the very object it was."""

    def __init__(self, messages: Sequence[BaseMessage]) -> None:
        self.items = [_chat(message) for message in messages]
        self._originals = {id(item): message for item, message in zip(self.items, messages, strict=True)}

    def messages(self, items: Sequence[Any]) -> list[BaseMessage]:
        return [self._originals.get(id(item)) or convert_to_messages([item])[0] for item in items]


def _chat(message: BaseMessage) -> dict[str, Any]:
    converted = convert_to_openai_messages(message)
    if isinstance(converted, dict):
        return converted
    # A message of several parts that chat would split: counted by its text, and kept whole.
    return {"role": "user" if message.type == "human" else "assistant", "content": message.text}


def _tools(request: Any) -> list[Any]:
    return [tool if isinstance(tool, dict) else convert_to_openai_tool(tool) for tool in request.tools]


def _thread_id() -> str | None:
    from langgraph.config import get_config

    try:
        thread = get_config().get("configurable", {}).get("thread_id")
    except RuntimeError:
        return None
    return str(thread) if thread else None


def _tell(error: Exception) -> None:
    say("compact", f"not compacted, the input goes out as it is: {type(error).__name__}: {error}")
