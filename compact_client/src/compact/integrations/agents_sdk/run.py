"""Everything a run needs: `compacting` for `Runner.run`, the input filter alone, and a tool for the agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from agents import AgentOutputSchema, AgentOutputSchemaBase, FunctionTool, RunConfig, RunHooks, function_tool
from agents.run_config import CallModelData, ModelInputData

from compact.integrations.agents_sdk.context import RunContext, SessionId, read_usage, under_current_span
from compact.integrations.agents_sdk.model import schema_of, without_meta
from compact.integrations.agents_sdk.run_model import RunModel, current_agent
from compact.integrations.model_call import report_usage
from compact.integrations.recall_call import DESCRIPTION, PARAMETERS, TOOL_NAME, RecallCall, read_query
from compact.manager import CompactManager

Filter = Callable[[CallModelData[Any]], Awaitable[ModelInputData]]


def compacting(
    manager: CompactManager,
    *,
    session: Any = None,
    session_id: SessionId = None,
    run_config: RunConfig | None = None,
    hooks: RunHooks[Any] | None = None,
) -> dict[str, Any]:
    """Return keyword arguments for `Runner.run`.

        await Runner.run(agent, "…", session=session, **compacting(manager, session=session))

    Pass your own `run_config` and `hooks` here to keep them. Any number of concurrent runs may use the same value.
    Nested runs (`agent.as_tool`) use the configuration of the run that calls them.
    """
    context = RunContext(manager, session_id or getattr(session, "session_id", None))
    if callable(getattr(session, "run_compaction", None)):
        context.warn(
            "two_compactions",
            f"{type(session).__name__} also compacts, and skips a history that this library has changed. "
            "Use only one of the two.",
            severity="high",
        )
    config = run_config or RunConfig()
    changes: dict[str, Any] = {
        "call_model_input_filter": _remember_agent(config.call_model_input_filter),
        "model": RunModel(context, config),
    }
    return {"run_config": replace(config, **changes), "hooks": hooks}


def compaction_tool(manager: CompactManager, *, session: Any = None, session_id: SessionId = None) -> FunctionTool:
    """Return a tool with which the agent can ask for a compaction, for example after finishing a subtask."""
    context = RunContext(manager, session_id or getattr(session, "session_id", None))

    @function_tool
    def compact_context(reason: str) -> str:
        """Summarize the older part of this conversation. Use it when earlier details are no longer needed.

        Args:
            reason: What was finished, in a few words.
        """
        manager.request_compaction(context.session(), f"the agent asked: {reason}")
        return "The conversation will be summarized before the next step."

    return compact_context


def recall_tool(
    manager: CompactManager,
    *,
    session: Any = None,
    session_id: SessionId = None,
    name: str = TOOL_NAME,
    limit: int = 5,
    max_tokens: int = 2_000,
) -> FunctionTool:
    """Return a tool with which the agent can search in everything that its session has contained."""
    context = RunContext(manager, session_id or getattr(session, "session_id", None))
    call = RecallCall(manager, name=name, limit=limit, max_tokens=max_tokens)

    async def invoke(_: Any, arguments: str) -> str:
        with under_current_span():
            return await call.arun(context.session(), read_query(arguments))

    return FunctionTool(name=name, description=DESCRIPTION, params_json_schema=dict(PARAMETERS), on_invoke_tool=invoke)


def agents_filter(manager: CompactManager, *, session_id: SessionId = None) -> Filter:
    """Return only the filter, for `RunConfig(call_model_input_filter=agents_filter(manager))`.

    A filter cannot send a request again, so there is no recovery from overflows. Add `CompactingHooks` to learn from
    the provider's token counts.
    """
    context = RunContext(manager, session_id)

    async def call_model_input_filter(data: CallModelData[Any]) -> ModelInputData:
        request = data.model_data
        if _has_outputs_without_call(request.input):
            # Only a server that keeps the conversation accepts an output without its call.
            context.warn_server_managed()
            return request
        call = context.model_call(
            request.input,
            tools=list(data.agent.tools),
            instructions=request.instructions,
            output_schema=_output_schema(data.agent.output_type),
        )
        return ModelInputData(input=without_meta(await call.aprepare()), instructions=request.instructions)

    return call_model_input_filter


def _remember_agent(inner: Any) -> Filter:
    """Return a filter that only tells the run's model which agent it works for, after the user's own filter."""

    async def call_model_input_filter(data: CallModelData[Any]) -> ModelInputData:
        request: Any = data.model_data
        if inner is not None:
            request = inner(data)
            if isinstance(request, Awaitable):
                request = await request
        current_agent.set(data.agent)
        return request  # type: ignore[no-any-return]

    return call_model_input_filter


def _has_outputs_without_call(items: Sequence[Any]) -> bool:
    calls = {item.get("call_id") for item in items if not str(item.get("type", "")).endswith("_output")}
    return any(item.get("call_id") not in calls for item in items if str(item.get("type", "")).endswith("_call_output"))


def _output_schema(output_type: Any) -> Any:
    if output_type is None or output_type is str:
        return None
    return schema_of(output_type if isinstance(output_type, AgentOutputSchemaBase) else AgentOutputSchema(output_type))


class CompactingHooks(RunHooks[Any]):
    """Reports the provider's token counts, for a run that uses `agents_filter` alone. Passes hooks on to your own."""

    def __init__(
        self, manager: CompactManager, inner: RunHooks[Any] | None = None, *, session_id: SessionId = None
    ) -> None:
        self._context = RunContext(manager, session_id)
        self._inner: RunHooks[Any] = inner or RunHooks()

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        usage = read_usage(response)
        if usage is not None:
            report_usage(self._context.manager, self._context.session(), usage)
        await self._inner.on_llm_end(context, agent, response)

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        await self._inner.on_llm_start(context, agent, system_prompt, input_items)

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        await self._inner.on_agent_start(context, agent)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        await self._inner.on_agent_end(context, agent, output)

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        await self._inner.on_handoff(context, from_agent, to_agent)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        await self._inner.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        await self._inner.on_tool_end(context, agent, tool, result)
