"""LangGraph 1.x: compaction as a node before the model. Runs offline with a scripted chat model."""

from typing import Annotated, Any, TypedDict

from compact import CompactConfig, CompactManager, CompactPolicy, ConsoleExporter
from compact.integrations.langgraph import pre_model_hook
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    llm_input_messages: list[AnyMessage]


def search(query: str) -> str:
    """Search the archive."""
    return f"Results for {query}: " + "a paragraph about this topic. " * 90


def main() -> None:
    calls = [
        AIMessage("", tool_calls=[{"id": f"c{n}", "name": "search", "args": {"query": f"topic {n}"}}]) for n in range(8)
    ]
    model = GenericFakeChatModel(messages=iter([*calls, AIMessage("Eight topics, one conclusion.")]))
    policy = CompactPolicy(keep_recent_turns=1, keep_tool_io_pairs=2)
    manager = CompactManager(CompactConfig("gpt-5", 6_000, policy=policy, exporter=ConsoleExporter()))

    def call_model(state: State) -> dict[str, Any]:
        return {"messages": [model.invoke(state["llm_input_messages"])]}

    graph = StateGraph(State)
    # `create_react_agent(…, pre_model_hook=pre_model_hook(manager))` adds the same node.
    graph.add_node("compact", pre_model_hook(manager, tools=[search]))
    graph.add_node("model", call_model)
    graph.add_node("tools", ToolNode([search]))
    graph.set_entry_point("compact")
    graph.add_edge("compact", "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "compact")
    agent = graph.compile(checkpointer=InMemorySaver())

    question = {"role": "user", "content": "Compare eight topics."}
    config: Any = {"configurable": {"thread_id": "user-1"}, "recursion_limit": 50}
    result = agent.invoke({"messages": [question]}, config)
    print(result["messages"][-1].content)
    sent = manager.remember("user-1").tokens
    print(f"{len(result['messages'])} messages kept in the state, last request {sent:,} tokens")


if __name__ == "__main__":
    main()
