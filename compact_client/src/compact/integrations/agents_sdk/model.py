"""Models that check their input against the context window, and shorten it when the provider rejects it as too long.

A model receives everything that a request consists of, including the ids of a conversation that the server keeps. So
all state of a call is local to it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

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
    ) -> None:
        self.inner = inner
        self._context = context or _new_context("CompactingModel", manager, session_id)

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
                system_instructions,
                without_meta(items),
                model_settings,
                tools,
                output_schema,
                handoffs,
                tracing,
                **state,
            )

        self._warn_about_server(model_settings, state)
        call = self._model_call(system_instructions, input, tools, output_schema, handoffs, state)
        return await (send(input) if call is None else call.arun(send))

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
                system_instructions,
                without_meta(items),
                model_settings,
                tools,
                output_schema,
                handoffs,
                tracing,
                **state,
            )

        self._warn_about_server(model_settings, state)
        call = self._model_call(system_instructions, input, tools, output_schema, handoffs, state)
        async for event in open_stream(input) if call is None else call.astream(open_stream):
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
        try:
            if _is_server_managed(state):
                self._context.warn_server_managed()
            elif _compacts_on_server(model_settings):
                self._context.warn(
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
        if _is_server_managed(state) or isinstance(items, str):
            return None
        try:
            all_tools = [*tools, *({"name": handoff.tool_name, **handoff.input_json_schema} for handoff in handoffs)]
            return self._context.model_call(
                items, tools=all_tools, instructions=instructions, output_schema=schema_of(output_schema)
            )
        except Exception as error:
            log_failure(error)
            return None


class CompactingProvider(ModelProvider):
    """Wraps every model that a run refers to by name."""

    def __init__(self, inner: ModelProvider, manager: CompactManager, *, session_id: SessionId = None) -> None:
        self._inner = inner
        self._context = RunContext(manager, session_id)

    def get_model(self, model_name: str | None) -> Model:
        return CompactingModel(self._inner.get_model(model_name), context=self._context)

    async def aclose(self) -> None:
        await self._inner.aclose()


def without_meta(items: Any) -> Any:
    """Return the input without the key that only this library understands. It marks protected items."""
    if isinstance(items, str) or not any("meta" in item for item in items):
        return items
    return [{key: value for key, value in item.items() if key != "meta"} for item in items]


def schema_of(output_schema: Any) -> Any:
    """Return the JSON schema of an agent's output, or None for plain text."""
    if output_schema is None or output_schema.is_plain_text():
        return None
    return output_schema.json_schema()


def _new_context(owner: str, manager: CompactManager | None, session_id: SessionId) -> RunContext:
    if manager is None:
        raise TypeError(f"{owner} needs a manager")
    return RunContext(manager, session_id)


def _is_server_managed(state: dict[str, Any]) -> bool:
    return bool(state.get("previous_response_id") or state.get("conversation_id"))


def _compacts_on_server(model_settings: Any) -> bool:
    nested = (getattr(model_settings, name, None) for name in ("extra_args", "extra_body"))
    settings = (vars(model_settings), *nested)
    return any(values.get("context_management") for values in settings if isinstance(values, dict))
