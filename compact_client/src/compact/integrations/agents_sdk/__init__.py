"""Compaction for the OpenAI Agents SDK, through the SDK's own extension points.

    manager = CompactManager(CompactConfig(model="gpt-5", max_context_tokens=400_000, exporter=AriadneExporter()))
    result = await Runner.run(agent, "…", session=session, **compacting(manager, session=session))

A failure in this library never fails a run. The input is sent unchanged, and one line on stderr says why.
"""

from compact.integrations.agents_sdk.model import CompactingModel, CompactingProvider
from compact.integrations.agents_sdk.run import CompactingHooks, agents_filter, compacting, compaction_tool, recall_tool
from compact.integrations.agents_sdk.span_exporter import AgentsSpanExporter
from compact.integrations.agents_sdk.trace_processor import AriadneTracingProcessor, trace_to_ariadne

__all__ = [
    "AgentsSpanExporter",
    "AriadneTracingProcessor",
    "CompactingHooks",
    "CompactingModel",
    "CompactingProvider",
    "agents_filter",
    "compacting",
    "compaction_tool",
    "recall_tool",
    "trace_to_ariadne",
]
