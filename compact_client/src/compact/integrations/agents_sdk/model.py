"""Models that shorten their input when the provider rejects it as too long.

Inside `compacting`, a model only recovers from overflows, because the input filter has already checked the input. On
its own, a model does both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from agents import get_current_span
from agents.models.interface import Model, ModelProvider

from compact.integrations.agents_sdk.context import RunContext, SessionId
from compact.integrations.model_call import ModelCall, log_failure
from compact.manager import CompactManager


class CompactingModel(Model):
    """Wraps a model: `Agent(model=CompactingModel(OpenAIResponsesModel(…), manager))`."""

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
        def send(items: Any) -> Any:
            return self.inner.get_response(
                system_instructions, items, model_settings, tools, output_schema, handoffs, tracing, **state
            )

        self._warn_about_server(model_settings, state)
        call = self._model_call(system_instructions, input, tools, output_schema, handoffs, state)
        if call is None:
            return await send(input)
        return await call.arun(send, prepared=input if self._is_filtered else None)

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
        def open_stream(items: Any) -> AsyncIterator[Any]:
            return self.inner.stream_response(
                system_instructions, items, model_settings, tools, output_schema, handoffs, tracing, **state
            )

        self._warn_about_server(model_settings, state)
        call = self._model_call(system_instructions, input, tools, output_schema, handoffs, state)
        if call is None:
            stream = open_stream(input)
        else:
            stream = call.astream(open_stream, prepared=input if self._is_filtered else None)
        async for event in stream:
            yield event

    def get_retry_advice(self, request: Any) -> Any:
        return self.inner.get_retry_advice(request)

    async def close(self) -> None:
        await self.inner.close()

    async def _cleanup_on_run_end(self, owner: object) -> None:
        await self.inner._cleanup_on_run_end(owner)

    def __getattr__(self, name: str) -> Any:
        # Attributes of the wrapped model, such as its name, stay available to the caller.
        return getattr(self.inner, name)

    def _warn_about_server(self, model_settings: Any, state: dict[str, Any]) -> None:
        """Warn if the server keeps or compacts the conversation too."""
        context = self._context
        try:
            if _is_server_managed(state):
                context.is_server_managed = True
                context.warn(
                    "server_managed",
                    "The server keeps this conversation (conversation_id or previous_response_id) and receives only "
                    "new items, so there is nothing to compact.",
                )
            elif _compacts_on_server(model_settings):
                context.warn(
                    "two_compactions",
                    "The model settings also ask the server to compact (context_management). Use only one of the two.",
                    severity="high",
                )
        except Exception as error:
            log_failure(error)

    def _model_call(
        self,
        instructions: str | None,
        items: Any,
        tools: Any,
        output_schema: Any,
        handoffs: Any,
        state: dict[str, Any],
    ) -> ModelCall | None:
        """Return the call to run, or None if the input must be sent as it is."""
        if _is_server_managed(state):
            return None
        context = self._context
        try:
            name, schema = _agent_name(), _schema_of(output_schema)
            all_tools = [*tools, *({"name": handoff.tool_name, **handoff.input_json_schema} for handoff in handoffs)]
            context.tools[name], context.output_schemas[name] = all_tools, schema
            if isinstance(items, str):
                return None
            if self._is_filtered and context.call is not None:
                return context.call
            return context.model_call(items, tools=all_tools, instructions=instructions, output_schema=schema)
        except Exception as error:
            log_failure(error)
            return None


class CompactingProvider(ModelProvider):
    """Wraps every model that a run refers to by name. Wrap model objects in `CompactingModel` yourself."""

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


def _compacts_on_server(model_settings: Any) -> bool:
    nested = (getattr(model_settings, name, None) for name in ("extra_args", "extra_body"))
    settings = (vars(model_settings), *nested)
    return any(values.get("context_management") for values in settings if isinstance(values, dict))


def _schema_of(output_schema: Any) -> Any:
    if output_schema is None or output_schema.is_plain_text():
        return None
    return output_schema.json_schema()


def _agent_name() -> str:
    """Return the name of the agent whose turn it is. The SDK does not pass it to models."""
    span: Any = get_current_span()
    data = getattr(span, "span_data", None)
    return str(getattr(data, "agent_name", None) or getattr(data, "name", None) or "")
