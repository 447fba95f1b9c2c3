"""LangChain 1.x: compaction as middleware for `create_agent`.

    agent = create_agent(model, tools, middleware=[CompactMiddleware(manager)])

The middleware changes only the request. The graph's state, and with it the checkpoint, keeps the full history.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_messages, convert_to_openai_messages
from langchain_core.utils.function_calling import convert_to_openai_tool

from compact.integrations.model_call import CallOptions, ModelCall
from compact.manager import CompactManager

SessionId = str | Callable[[Any], str] | None


class CompactMiddleware(AgentMiddleware[Any, Any]):  # type: ignore[misc]
    """Checks every model call against the context window.

    `session_id` is a string or a function of the request. The default is the id of the LangGraph thread.
    """

    def __init__(self, manager: CompactManager, *, session_id: SessionId = None) -> None:
        super().__init__()
        self.manager = manager
        self._session_id = session_id

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Run a model call and retry it with fewer messages after a context overflow."""
        view = _ChatView(request.messages)
        call = self._model_call(request, view)
        return call.run(lambda items: handler(request.override(messages=view.messages(items))))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Async version of `wrap_model_call`."""
        view = _ChatView(request.messages)
        call = self._model_call(request, view)
        return await call.arun(lambda items: handler(request.override(messages=view.messages(items))))

    def _model_call(self, request: Any, view: _ChatView) -> ModelCall:
        def options() -> CallOptions:
            return {"tools": _tools(request), "instructions": request.system_prompt, "format": "chat"}

        return ModelCall(self.manager, self._session(request), view.items, options=options, read_usage=_usage)

    def _session(self, request: Any) -> str:
        if callable(self._session_id):
            return self._session_id(request)
        return self._session_id or _thread_id() or "langchain"


class _ChatView:
    """LangChain messages as chat dicts, and back. Unchanged messages come back as the original objects."""

    def __init__(self, messages: Sequence[BaseMessage]) -> None:
        self.items = [_chat_dict(message) for message in messages]
        self._originals = {id(item): message for item, message in zip(self.items, messages, strict=True)}

    def messages(self, items: Sequence[Any]) -> list[BaseMessage]:
        return [self._originals.get(id(item)) or convert_to_messages([item])[0] for item in items]


def _chat_dict(message: BaseMessage) -> dict[str, Any]:
    try:
        converted = convert_to_openai_messages(message)
    except ValueError:
        # A block that OpenAI's format does not have, such as a video. The codec reads LangChain's own blocks too.
        role = {"human": "user", "tool": "tool"}.get(message.type, "assistant")
        item = {"role": role, "content": message.content}
        return {**item, "tool_call_id": message.tool_call_id} if isinstance(message, ToolMessage) else item
    if isinstance(converted, dict):
        return converted
    # The chat format would split this message. It must stay whole, so only its text is counted.
    return {"role": "user" if message.type == "human" else "assistant", "content": message.text}


def _tools(request: Any) -> list[Any]:
    return [tool if isinstance(tool, dict) else convert_to_openai_tool(tool) for tool in request.tools]


def _usage(response: Any) -> Any:
    """Return the first usage in a response that has a token count, or None."""
    messages = [response] if isinstance(response, AIMessage) else getattr(response, "result", ())
    usages = (getattr(message, "usage_metadata", None) for message in messages)
    return next((usage for usage in usages if usage and usage.get("input_tokens")), None)


def _thread_id() -> str | None:
    from langgraph.config import get_config

    try:
        thread = get_config().get("configurable", {}).get("thread_id")
    except RuntimeError:
        return None
    return str(thread) if thread else None
