"""Everything a run needs: `compacting` for `Runner.run`, the input filter alone, and a tool for the agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from agents import FunctionTool, RunConfig, RunHooks, function_tool
from agents.models.interface import Model
from agents.run_config import CallModelData, ModelInputData

from compact.integrations.agents_sdk.context import RunContext, SessionId
from compact.integrations.agents_sdk.model import CompactingModel, CompactingProvider
from compact.integrations.model_call import log_failure, report_usage
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

    Pass your own `run_config` and `hooks` here to keep them. Nested runs (`agent.as_tool`) have their own run
    configuration, so pass the arguments to them too.
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
        "call_model_input_filter": _filter(context, config.call_model_input_filter),
        "model_provider": CompactingProvider(config.model_provider, context=context),
    }
    if isinstance(config.model, Model):
        changes["model"] = CompactingModel(config.model, context=context, is_filtered=True)
    return {"run_config": replace(config, **changes), "hooks": CompactingHooks(context, hooks)}


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


def agents_filter(manager: CompactManager, *, session_id: SessionId = None) -> Filter:
    """Return only the filter, for `RunConfig(call_model_input_filter=agents_filter(manager))`."""
    return _filter(RunContext(manager, session_id), None)


def _filter(context: RunContext, inner: Any) -> Filter:
    async def call_model_input_filter(data: CallModelData[Any]) -> ModelInputData:
        context.call = None
        request = await _apply(inner, data) if inner is not None else data.model_data
        if context.is_server_managed:
            return request
        try:
            return await _compact(context, data.agent, request)
        except Exception as error:
            # The SDK fails the run if a filter raises.
            log_failure(error)
            return request

    return call_model_input_filter


async def _apply(inner: Any, data: CallModelData[Any]) -> ModelInputData:
    """Call the user's own filter, which may be sync or async."""
    result = inner(data)
    request: ModelInputData = await result if isinstance(result, Awaitable) else result
    return request


async def _compact(context: RunContext, agent: Any, request: ModelInputData) -> ModelInputData:
    context.call = context.model_call(
        request.input,
        # The tools of the last request include hosted and MCP tools. Listing those here would cost a network call.
        tools=context.tools.get(agent.name, list(agent.tools)),
        instructions=request.instructions,
        output_schema=context.output_schemas.get(agent.name),
    )
    return ModelInputData(input=await context.call.aprepare(), instructions=request.instructions)


class CompactingHooks(RunHooks[Any]):
    """Reports the provider's token counts, and passes every hook on to the user's own hooks."""

    def __init__(self, context: RunContext, inner: RunHooks[Any] | None = None) -> None:
        self._context = context
        self._inner: RunHooks[Any] = inner or RunHooks()

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        call, usage = self._context.call, response.usage
        if call is not None and usage and usage.input_tokens and not self._context.is_server_managed:
            report_usage(call.manager, call.session_id, usage)
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
