"""The way in: an input filter, hooks that feed usage back, and both at once for `Runner.run`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from agents import FunctionTool, RunConfig, RunHooks, function_tool
from agents.models.interface import Model
from agents.run_config import CallModelData, ModelInputData

from compact.delivery.stderr import say
from compact.integrations.agents_sdk.context import RunContext, SessionId, under_current_span
from compact.integrations.agents_sdk.model import CompactingModel, CompactingProvider
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
    """Arguments for `Runner.run`: `Runner.run(agent, "…", session=session, **compacting(manager, session=session))`.

    Your own `run_config` and `hooks` go in here and keep working. Pass it again to nested runs (`agent.as_tool`), which
    have a run configuration of their own.
    """
    context = RunContext(manager, session_id or getattr(session, "session_id", None))
    if callable(getattr(session, "run_compaction", None)):
        context.announce(
            "two_compactions",
            f"{type(session).__name__} compacts by itself, and only history that it recognises: with this library it "
            "would be skipped. Use one of the two",
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
    """A tool with which the agent itself may ask for compaction, say when it has finished with a part of its task."""
    context = RunContext(manager, session_id or getattr(session, "session_id", None))

    @function_tool
    def compact_context(reason: str) -> str:
        """Summarise the older part of this conversation. Use it when earlier details are no longer needed.

        Args:
            reason: What was finished, in a few words.
        """
        manager.request_compaction(context.session(), f"the agent asked: {reason}")
        return "The conversation will be summarised before the next step."

    return compact_context


def agents_filter(manager: CompactManager, *, session_id: SessionId = None) -> Filter:
    """Only the filter, for `RunConfig(call_model_input_filter=agents_filter(manager))`."""
    return _filter(RunContext(manager, session_id), None)


def _filter(context: RunContext, inner: Any) -> Filter:
    async def call_model_input_filter(data: CallModelData[Any]) -> ModelInputData:
        if inner is not None:
            result = inner(data)
            given: ModelInputData = await result if isinstance(result, Awaitable) else result
        else:
            given = data.model_data
        if context.is_server_managed:
            return given
        try:
            return await _compacted(context, data, given)
        except Exception as error:
            # The SDK fails the run if a filter raises; an agent must not stop because its memory could not shrink.
            say("compact", f"not compacted, the input goes out as it is: {type(error).__name__}: {error}")
            return given

    return call_model_input_filter


async def _compacted(context: RunContext, data: CallModelData[Any], given: ModelInputData) -> ModelInputData:
    name = data.agent.name
    context.shown = list(given.input)
    with under_current_span():
        items = await context.manager.apreflight(
            context.session(),
            context.shown,
            # What the model saw last time includes hosted and MCP tools; asking for those here would cost a call.
            tools=context.tools.get(name, list(data.agent.tools)),
            instructions=given.instructions,
            output_schema=context.output_schemas.get(name),
            format="responses",
        )
    return ModelInputData(input=items, instructions=given.instructions)


class CompactingHooks(RunHooks[Any]):
    """Feeds the provider's own token counts back; everything else goes on to the hooks you had."""

    def __init__(self, context: RunContext, inner: RunHooks[Any] | None = None) -> None:
        self._context = context
        self._inner: RunHooks[Any] = inner or RunHooks()

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        try:
            if response.usage and response.usage.input_tokens and not self._context.is_server_managed:
                self._context.manager.report_usage(self._context.session(), response.usage)
        except Exception as error:
            say("compact", f"the provider's usage could not be used: {type(error).__name__}: {error}")
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
