"""pydantic-ai 2.x: compaction as a capability. Runs offline with a function model."""

from compact import CompactConfig, CompactManager, CompactPolicy, ConsoleExporter
from compact.integrations.pydantic_ai import CompactCapability
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


def main() -> None:
    calls = iter(range(100))

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        number = next(calls)
        if number == 8:
            return ModelResponse(parts=[TextPart("Eight tables, one schema.")])
        return ModelResponse(parts=[ToolCallPart("describe", {"table": f"table_{number}"}, f"call_{number}")])

    policy = CompactPolicy(keep_recent_turns=1, keep_tool_io_pairs=2)
    manager = CompactManager(CompactConfig("gpt-5", 4_000, policy=policy, exporter=ConsoleExporter()))
    agent = Agent(FunctionModel(model), capabilities=[CompactCapability(manager, session_id="pydantic-ai")])

    @agent.tool_plain
    def describe(table: str) -> str:
        """Describe a table."""
        return f"{table}: " + "column of type text, not null, indexed. " * 60

    result = agent.run_sync("Describe all tables.")
    print(result.output)
    print(f"{len(result.all_messages())} messages kept, last request {manager.remember('pydantic-ai').tokens:,} tokens")


if __name__ == "__main__":
    main()
