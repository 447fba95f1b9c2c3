"""The model of a whole run, which wraps the model of the agent whose turn it is.

A run's configuration can name one model for all agents. That is the only place where models that are given as objects
(`Agent(model=OpenAIResponsesModel(…))`) can be wrapped from outside.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any
from weakref import WeakSet

from agents import Agent, ModelSettings, RunConfig
from agents.models.default_models import get_default_model_settings
from agents.models.interface import Model

from compact.integrations.agents_sdk.context import RunContext
from compact.integrations.agents_sdk.model import CompactingModel

# The input filter and the model of a turn run in the same task, and concurrent runs in different ones.
current_agent: ContextVar[Agent[Any] | None] = ContextVar("compact_current_agent", default=None)


class RunModel(Model):
    """Sends each request to the model that the SDK would have chosen. Any number of runs may share it."""

    def __init__(self, context: RunContext, config: RunConfig) -> None:
        self._context = context
        self._config = config
        self._used: WeakSet[Model] = WeakSet()
        self._lock = threading.Lock()

    async def get_response(
        self, system_instructions: str | None, input: Any, model_settings: Any, *arguments: Any, **state: Any
    ) -> Any:
        model, settings = self._compacting_model(), self._restore_defaults(model_settings)
        return await model.get_response(system_instructions, input, settings, *arguments, **state)

    async def stream_response(
        self, system_instructions: str | None, input: Any, model_settings: Any, *arguments: Any, **state: Any
    ) -> AsyncIterator[Any]:
        model, settings = self._compacting_model(), self._restore_defaults(model_settings)
        async for event in model.stream_response(system_instructions, input, settings, *arguments, **state):
            yield event

    def get_retry_advice(self, request: Any) -> Any:
        return self._inner().get_retry_advice(request)

    async def _cleanup_on_run_end(self, owner: object) -> None:
        with self._lock:
            models = list(self._used)
        for model in models:
            # Each model compares the owner, so the models of other runs are not affected.
            await model._cleanup_on_run_end(owner)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_context", "_config"):
            raise AttributeError(name)
        return getattr(self._inner(), name)

    def _inner(self) -> Model:
        """Return the model that the SDK would have chosen for the current agent."""
        agent, config = current_agent.get(), self._config
        for model in (config.model, agent.model if agent is not None else None):
            if isinstance(model, Model):
                return model
            if model is not None:
                return config.model_provider.get_model(model)
        return config.model_provider.get_model(None)

    def _compacting_model(self) -> Model:
        inner = self._inner()
        with self._lock:
            self._used.add(inner)
        # The agent's author already wrapped this model, with a manager of its own.
        return inner if isinstance(inner, CompactingModel) else CompactingModel(inner, context=self._context)

    def _restore_defaults(self, settings: ModelSettings) -> ModelSettings:
        """Add the SDK's defaults for a model name, which the SDK leaves out for a model object such as this one."""
        agent, model = current_agent.get(), self._config.model
        if agent is None or isinstance(model, Model) or agent.model_settings != _implicit_settings(agent.model):
            return settings
        return _implicit_settings(model or agent.model).resolve(settings)


def _implicit_settings(model: str | Model | None) -> ModelSettings:
    """Return the settings of an agent that sets none itself."""
    return ModelSettings() if isinstance(model, Model) else get_default_model_settings(model)
