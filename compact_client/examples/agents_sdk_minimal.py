"""OpenAI Agents SDK: compaction in five lines, with events on the console.

Runs offline with the SDK's scripted model. To call a real model, set `model="gpt-5"` on the agent instead.
"""

import asyncio

from agents import Agent, Runner, function_tool, set_trace_processors
from agents.testing import ScriptedModel, assistant_message, function_call
from compact import CompactConfig, CompactManager, CompactPolicy, ConsoleExporter
from compact.integrations.agents_sdk import compacting


@function_tool
def read(path: str) -> str:
    """Read a file."""
    return f"# {path}\n" + "value = compute(previous, limit=900)\n" * 60


def scripted_model() -> ScriptedModel:
    calls = [[function_call("read", {"path": f"src/part{n}.py"}, call_id=f"call_{n}")] for n in range(8)]
    return ScriptedModel([*calls, [assistant_message("All eight parts use the same limit of 900.")]])


async def main() -> None:
    set_trace_processors([])  # Do not upload traces to OpenAI.
    agent = Agent(name="reader", instructions="Read the parts.", tools=[read], model=scripted_model())

    policy = CompactPolicy(keep_recent_turns=2, keep_tool_io_pairs=2)
    manager = CompactManager(
        CompactConfig(model="gpt-5", max_context_tokens=6_000, policy=policy, exporter=ConsoleExporter())
    )
    result = await Runner.run(agent, "Read all parts.", max_turns=20, **compacting(manager, session_id="minimal"))

    print(result.final_output)
    print(manager.remember("minimal"))


if __name__ == "__main__":
    asyncio.run(main())
