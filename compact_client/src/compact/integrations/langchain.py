"""LangChain 1.x: compaction as middleware for `create_agent`.

    agent = create_agent(model, tools, middleware=[CompactMiddleware(manager)])

The middleware changes only the request. The graph's state, and with it the checkpoint, keeps the full history.
Protect a message with `HumanMessage("…", additional_kwargs={"protected": True})`. The mark is not sent to the provider.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import AgentState, PrivateStateAttr
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from compact.integrations.langchain_tools import build_recall_tool, start_with_user, state_messages
from compact.integrations.model_call import CallOptions, ModelCall, new_session_id, warn_unidentified
from compact.integrations.recall_call import TOOL_NAME, RecallCall
from compact.manager import CompactManager
from compact.planning.tool_results.durability import declared_policies

SessionId = str | Callable[[Any], str] | None
_FIX = 'Pass session_id=… to CompactMiddleware, or config={"configurable": {"thread_id": "…"}} to invoke.'


class CompactState(AgentState[Any]):  # type: ignore[misc]
    """The agent's state with the session id of a run that has no thread."""

    compact_session_id: NotRequired[Annotated[str, PrivateStateAttr]]  # type: ignore[valid-type]


class CompactMiddleware(AgentMiddleware[Any, Any]):  # type: ignore[misc]
    """Checks every model call against the context window.

    `session_id` is a string or a function of the request. The default is the id of the LangGraph thread. Without a
    thread, each run is its own session.
    """

    state_schema = CompactState

    def __init__(self, manager: CompactManager, *, session_id: SessionId = None) -> None:
        super().__init__()
        self.manager = manager
        self._session_id = session_id

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Give a run without a thread a session id of its own."""
        if self._session_id or _thread_id():
            return None
        return {"compact_session_id": new_session_id("langchain")}

    async def abefore_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Async version of `before_agent`."""
        return self.before_agent(state, runtime)

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Run a model call and retry it with fewer messages after a context overflow."""
        call = self._model_call(request)
        return call.run(lambda messages: handler(_with_messages(request, messages)))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Async version of `wrap_model_call`."""
        call = self._model_call(request)
        return await call.arun(lambda messages: handler(_with_messages(request, messages)))

    def _model_call(self, request: Any) -> ModelCall:
        def options() -> CallOptions:
            return {
                "tools": _tools(request),
                "instructions": request.system_prompt,
                "format": "langchain",
                "durability": declared_policies({getattr(tool, "name", ""): tool for tool in request.tools}),
            }

        return ModelCall(self.manager, self._session(request), request.messages, options=options, read_usage=_usage)

    def _session(self, request: Any) -> str:
        session_id = self._session_id(request) if callable(self._session_id) else self._session_id
        session_id = session_id or _thread_id()
        if session_id:
            return session_id
        state = getattr(request, "state", None)
        own_id = state.get("compact_session_id") if isinstance(state, Mapping) else None
        own_id = str(own_id or new_session_id("langchain"))
        warn_unidentified(self.manager, own_id, _FIX)
        return own_id


def recall_tool(
    manager: CompactManager,
    *,
    session_id: SessionId = None,
    name: str = TOOL_NAME,
    limit: int = 5,
    max_tokens: int = 2_000,
) -> BaseTool:
    """Return a tool for `create_agent` with which the agent can search in everything that its thread has contained.

    `session_id` is as for `CompactMiddleware`, but a function gets the state of the graph.
    """
    call = RecallCall(manager, name=name, limit=limit, max_tokens=max_tokens)

    def arguments(query: str, state: Any) -> tuple[str, str, list[Any]]:
        given = session_id(state) if callable(session_id) else session_id
        own_id = state.get("compact_session_id") if isinstance(state, Mapping) else None
        return str(given or _thread_id() or own_id or ""), query, state_messages(state)

    return build_recall_tool(call, arguments, name)


def _with_messages(request: Any, messages: Sequence[BaseMessage]) -> Any:
    return request.override(messages=start_with_user(messages, request.messages))


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
