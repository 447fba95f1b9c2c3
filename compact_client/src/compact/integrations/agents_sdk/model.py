"""A model that sees all that is sent, and shrinks the input when the provider says that it was too long.

Inside `compacting` it only recovers, for the filter has checked the input already; on its own it does both. A stream is
retried only before its first event.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from agents import get_current_span
from agents.models.interface import Model, ModelProvider

from compact.delivery.stderr import say
from compact.integrations.agents_sdk.context import RunContext, SessionId, under_current_span
from compact.integrations.retry import ashorter
from compact.manager import CompactManager


class CompactingModel(Model):
    """`CompactingModel(OpenAIResponsesModel(…), manager)` as the model of an agent."""

    def __init__(
        self,
        inner: Model,
        manager: CompactManager | None = None,
        *,
        session_id: SessionId = None,
        context: RunContext | None = None,
        is_filtered: bool = False,
    ) -> None:
        if context is None and manager is None:
            raise TypeError("CompactingModel needs a manager")
        self.inner = inner
        self._context = context or RunContext(manager, session_id)  # type: ignore[arg-type]
        self._is_filtered = is_filtered

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,
        model_settings: Any,
        tools: Any,
        output_schema: Any,
        handoffs: Any,
        tracing: Any,
        **state: Any,
    ) -> Any:
        items = await self._checked(input, system_instructions, model_settings, tools, output_schema, handoffs, state)
        attempt = 0
        while True:
            try:
                return await self.inner.get_response(
                    system_instructions, items, model_settings, tools, output_schema, handoffs, tracing, **state
                )
            except Exception as error:
                attempt += 1
                items = await self._shorter(items, error, attempt, state)

    async def stream_response(
        self,
        system_instructions: str | None,
        input: Any,
        model_settings: Any,
        tools: Any,
        output_schema: Any,
        handoffs: Any,
        tracing: Any,
        **state: Any,
    ) -> AsyncIterator[Any]:
        items = await self._checked(input, system_instructions, model_settings, tools, output_schema, handoffs, state)
        attempt = 0
        while True:
            has_begun = False
            try:
                async for event in self.inner.stream_response(
                    system_instructions, items, model_settings, tools, output_schema, handoffs, tracing, **state
                ):
                    has_begun = True
                    yield event
                return
            except Exception as error:
                if has_begun:
                    raise
                attempt += 1
                items = await self._shorter(items, error, attempt, state)

    def get_retry_advice(self, request: Any) -> Any:
        return self.inner.get_retry_advice(request)

    async def close(self) -> None:
        await self.inner.close()

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self.inner._cleanup_on_run_end(owner)

    def __getattr__(self, name: str) -> Any:
        # What a caller knows of the wrapped model (its name, its script) is still there.
        return getattr(self.inner, name)

    async def _checked(
        self,
        items: Any,
        instructions: str | None,
        model_settings: Any,
        tools: Any,
        output_schema: Any,
        handoffs: Any,
        state: dict[str, Any],
    ) -> Any:
        context = self._context
        try:
            if _is_server_managed(state):
                context.is_server_managed = True
                context.announce(
                    "server_managed",
                    "the conversation is kept by the server (conversation_id or previous_response_id): only new items "
                    "are sent, so there is nothing to compact here",
                )
                return items
            if _compacts_itself(model_settings):
                context.announce(
                    "two_compactions",
                    "the model settings ask the server to compact too (context_management): use one of the two",
                    severity="high",
                )
            schema = _schema_of(output_schema)
            everything = [*tools, *({"name": one.tool_name, **one.input_json_schema} for one in handoffs)]
            name = _agent_name()
            context.tools[name], context.output_schemas[name] = everything, schema
            if self._is_filtered or isinstance(items, str):
                return items
            context.shown = list(items)
            with under_current_span():
                return await context.manager.apreflight(
                    context.session(),
                    context.shown,
                    tools=everything,
                    instructions=instructions,
                    output_schema=schema,
                    format="responses",
                )
        except Exception as error:
            say("compact", f"not compacted, the input goes out as it is: {type(error).__name__}: {error}")
            return items

    async def _shorter(self, items: Any, error: Exception, attempt: int, state: dict[str, Any]) -> Any:
        """A shorter input, or the provider's error again."""
        context = self._context
        if isinstance(items, str) or _is_server_managed(state):
            raise error
        with under_current_span():
            return await ashorter(context.manager, context.session(), context.shown, error, attempt=attempt)


class CompactingProvider(ModelProvider):
    """Wraps each model that a run names; those it is given as objects are wrapped by hand."""

    def __init__(
        self,
        inner: ModelProvider,
        manager: CompactManager | None = None,
        *,
        session_id: SessionId = None,
        context: RunContext | None = None,
    ) -> None:
        if context is None and manager is None:
            raise TypeError("CompactingProvider needs a manager")
        self._inner = inner
        self._is_filtered = context is not None
        self._context = context or RunContext(manager, session_id)  # type: ignore[arg-type]

    def get_model(self, model_name: str | None) -> Model:
        model = self._inner.get_model(model_name)
        return CompactingModel(model, context=self._context, is_filtered=self._is_filtered)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _is_server_managed(state: dict[str, Any]) -> bool:
    return bool(state.get("previous_response_id") or state.get("conversation_id"))


def _compacts_itself(model_settings: Any) -> bool:
    named = ("extra_args", "extra_body")
    places = (vars(model_settings), *(getattr(model_settings, name, None) for name in named))
    return any(place.get("context_management") for place in places if isinstance(place, dict))


def _schema_of(output_schema: Any) -> Any:
    if output_schema is None or output_schema.is_plain_text():
        return None
    return output_schema.json_schema()


def _agent_name() -> str:
    """The agent of the current turn: a model is not told who asks."""
    span: Any = get_current_span()
    data = getattr(span, "span_data", None)
    return str(getattr(data, "agent_name", None) or getattr(data, "name", None) or "")
