"""LangChain 1.x: compaction as middleware. Runs offline with a scripted chat model."""

from collections.abc import Sequence
from typing import Any

from compact import CompactConfig, CompactManager, CompactPolicy, ConsoleExporter
from compact.integrations.langchain import CompactMiddleware
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage


class ScriptedChatModel(GenericFakeChatModel):
    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self


def search(query: str) -> str:
    """Search the archive."""
    return f"Results for {query}: " + "a paragraph about this topic. " * 90


def main() -> None:
    calls = [
        AIMessage("", tool_calls=[{"id": f"c{n}", "name": "search", "args": {"query": f"topic {n}"}}]) for n in range(8)
    ]
    model = ScriptedChatModel(messages=iter([*calls, AIMessage("Eight topics, one conclusion.")]))
    policy = CompactPolicy(keep_recent_turns=1, keep_tool_io_pairs=2)
    manager = CompactManager(CompactConfig("gpt-5", 6_000, policy=policy, exporter=ConsoleExporter()))
    agent = create_agent(model, [search], middleware=[CompactMiddleware(manager, session_id="langchain")])
    result = agent.invoke({"messages": [{"role": "user", "content": "Compare eight topics."}]}, {"recursion_limit": 50})
    print(result["messages"][-1].content)
    sent = manager.remember("langchain").tokens
    print(f"{len(result['messages'])} messages kept in the state, last request {sent:,} tokens")


if __name__ == "__main__":
    main()
