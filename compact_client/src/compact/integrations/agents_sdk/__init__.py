"""Compaction inside the OpenAI Agents SDK, through the SDK's own hook points.

    manager = CompactManager(CompactConfig(model="gpt-5", max_context_tokens=400_000, exporter=AriadneExporter()))
    result = await Runner.run(agent, "…", session=session, **compacting(manager, session=session))

A fault of this library never fails a run: what goes wrong is told, and the untouched input is sent.
"""

from compact.integrations.agents_sdk.model import CompactingModel, CompactingProvider
from compact.integrations.agents_sdk.run import CompactingHooks, agents_filter, compacting, compaction_tool
from compact.integrations.agents_sdk.tracing import AgentsSpanExporter, AriadneTracingProcessor, trace_to_ariadne

__all__ = [
    "AgentsSpanExporter",
    "AriadneTracingProcessor",
    "CompactingHooks",
    "CompactingModel",
    "CompactingProvider",
    "agents_filter",
    "compacting",
    "compaction_tool",
    "trace_to_ariadne",
]
