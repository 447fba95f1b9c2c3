"""LangGraph 1.x: compaction as a `pre_model_hook`, or as a node before the one that calls the model.

    agent = create_react_agent(model, tools, pre_model_hook=pre_model_hook(manager, tools=tools), checkpointer=saver)
    agent.invoke({"messages": […]}, {"configurable": {"thread_id": "user-1"}})

The hook writes the state key `llm_input_messages`, which LangGraph sends instead of `messages`. The graph's state, and
with it the checkpoint, keeps the full history. A hook does not see an error of the model, so use `CompactMiddleware`
with `create_agent` for the recovery from context overflows. Protect a message with
`HumanMessage("…", additional_kwargs={"protected": True})`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from compact.integrations.langchain_tools import build_recall_tool, start_with_user, state_messages
from compact.integrations.model_call import CallOptions, ModelCall, report_usage, warn_unidentified
from compact.integrations.recall_call import TOOL_NAME, RecallCall
from compact.manager import CompactManager

SessionId = str | Callable[[RunnableConfig], str] | None

_FIX = 'Pass config={"configurable": {"thread_id": "…"}} to the graph, or session_id=… to pre_model_hook.'


def pre_model_hook(
    manager: CompactManager,
    *,
    session_id: SessionId = None,
    tools: Sequence[Any] = (),
    instructions: str | None = None,
    input_key: str = "messages",
    output_key: str = "llm_input_messages",
) -> RunnableLambda[Any, dict[str, Any]]:
    """Return a hook that checks the messages of the state against the context window.

    `session_id` is a string or a function of the run's config. The default is the thread id of the config. `tools` and
    `instructions` are counted, because a hook does not see what is sent beside the messages.
    """
    hook = _Hook(manager, session_id, tools, instructions, input_key, output_key)
    return RunnableLambda(hook.run, afunc=hook.arun, name="compact")


def recall_tool(
    manager: CompactManager,
    *,
    session_id: SessionId = None,
    input_key: str = "messages",
    name: str = TOOL_NAME,
    limit: int = 5,
    max_tokens: int = 2_000,
) -> BaseTool:
    """Return a tool for a `ToolNode` with which the agent can search in everything that its thread has contained.

    `session_id` and `input_key` are as for `pre_model_hook`.
    """
    call = RecallCall(manager, name=name, limit=limit, max_tokens=max_tokens)
    hook = _Hook(manager, session_id, (), None, input_key, "")

    def arguments(query: str, state: Any) -> tuple[str, str, list[Any]]:
        messages = state_messages(state, input_key)
        return hook.session(messages, ensure_config()), query, messages

    return build_recall_tool(call, arguments, name)


class _Hook:
    def __init__(
        self,
        manager: CompactManager,
        session_id: SessionId,
        tools: Sequence[Any],
        instructions: str | None,
        input_key: str,
        output_key: str,
    ) -> None:
        self._manager = manager
        self._session_id = session_id
        self._tools = tools
        self._instructions = instructions
        self._input_key = input_key
        self._output_key = output_key

    def run(self, state: Any, config: RunnableConfig) -> dict[str, Any]:
        call = self._model_call(state, config)
        return {self._output_key: start_with_user(call.prepare(), call.messages)}

    async def arun(self, state: Any, config: RunnableConfig) -> dict[str, Any]:
        call = self._model_call(state, config)
        return {self._output_key: start_with_user(await call.aprepare(), call.messages)}

    def _model_call(self, state: Any, config: RunnableConfig) -> ModelCall:
        def options() -> CallOptions:
            tools = [tool if isinstance(tool, dict) else convert_to_openai_tool(tool) for tool in self._tools]
            return {"tools": tools or None, "instructions": self._instructions, "format": "langchain"}

        messages = state[self._input_key] if isinstance(state, Mapping) else getattr(state, self._input_key)
        session_id = self.session(messages, config)
        self._report_usage(session_id, messages)
        return ModelCall(self._manager, session_id, messages, options=options)

    def _report_usage(self, session_id: str, messages: Sequence[BaseMessage]) -> None:
        """Report the token counts of the newest response, which answered the request before this one."""
        response = next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)
        usage = response.usage_metadata if response is not None else None
        if usage and usage.get("input_tokens"):
            report_usage(self._manager, session_id, usage)

    def session(self, messages: Sequence[BaseMessage], config: RunnableConfig) -> str:
        """Return the session id of a run."""
        session_id = self._session_id(config) if callable(self._session_id) else self._session_id
        session_id = session_id or config.get("configurable", {}).get("thread_id")
        if session_id:
            return str(session_id)
        own_id = f"langgraph-{_run_id(messages)}"
        warn_unidentified(self._manager, own_id, _FIX)
        return own_id


def _run_id(messages: Sequence[BaseMessage]) -> str:
    """Return the id that LangGraph gave the first message of the run, else a new one for each call."""
    first = messages[0].id if messages else None
    try:
        return str(uuid.UUID(first))
    except (TypeError, ValueError):
        return uuid.uuid4().hex
