"""LangChain: `create_agent` with a scripted chat model."""

from __future__ import annotations

from typing import Any

import pytest
from compact import CallbackExporter, CompactConfig, CompactManager
from compact.integrations.langchain import CompactMiddleware
from langchain.agents import create_agent
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

MARK = {"meta": {"protected": True}}
LONG = "lorem ipsum dolor " * 60
OVERFLOW = "This model's maximum context length is 100 tokens, you requested 150"


def scripted_agent(manager: CompactManager, count: int) -> tuple[Any, list[list[Any]]]:
    """Return an agent that reads `count` files, and the list of its requests."""
    sent: list[list[Any]] = []

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

        def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            sent.append(list(messages))
            return super()._generate(messages, *args, **kwargs)

    def read(path: str) -> str:
        """Read a file."""
        return f"{path}: {LONG}"

    calls = [
        AIMessage("", tool_calls=[{"id": f"c{n}", "name": "read", "args": {"path": f"{n}.py"}}]) for n in range(count)
    ]
    model = Model(messages=iter([*calls, AIMessage("done")]))
    agent = create_agent(
        model, [read], middleware=[CompactMiddleware(manager)], system_prompt="Read.", checkpointer=InMemorySaver()
    )
    return agent, sent


@pytest.mark.parametrize("is_async", [False, True])
async def test_long_runs_are_compacted(is_async: bool, manager: CompactManager, events: list[Any]) -> None:
    """The request is short with complete tool pairs. The state keeps everything. The session is the thread."""
    agent, sent = scripted_agent(manager, 10)
    config = {"configurable": {"thread_id": "thread-1"}, "recursion_limit": 50}
    question = {"messages": [{"role": "user", "content": "Read ten files."}]}
    result = await agent.ainvoke(question, config) if is_async else agent.invoke(question, config)
    assert result["messages"][-1].content == "done"
    assert len(result["messages"]) == 22
    assert any(event["event"] == "compact.pruned_messages" for event in events)
    assert {event["session_id"] for event in events} == {"thread-1"}
    last = sent[-1]
    assert len(last) < 22
    assert any("<COMPACT-SUMMARY" in str(message.content) for message in last)
    called = [call["id"] for message in last for call in getattr(message, "tool_calls", ())]
    assert called == [message.tool_call_id for message in last if message.type == "tool"]


@pytest.mark.req("R-OVER-1")
def test_an_overflow_is_recovered(manager: CompactManager, events: list[Any]) -> None:
    """The handler is called with fewer messages after each overflow."""
    request_sizes: list[int] = []

    def handler(request: Any) -> Any:
        request_sizes.append(len(request.messages))
        if len(request_sizes) < 3:
            raise ValueError(OVERFLOW)
        return ModelResponse(result=[AIMessage("done")])

    messages = [HumanMessage(f"{n} " + "word " * 10) for n in range(12)]
    request = ModelRequest(model=None, messages=messages)  # type: ignore[arg-type]
    CompactMiddleware(manager, session_id="s").wrap_model_call(request, handler)
    assert request_sizes[0] == 12
    assert request_sizes[2] < request_sizes[1] < request_sizes[0]
    assert any(event["event"] == "compact.overflow_recovered" for event in events)


@pytest.mark.parametrize("window_tokens", [100_000, 3_000])
def test_marked_messages_are_the_same_objects(window_tokens: int, events: list[Any]) -> None:
    """Protected messages and those with `meta` are sent as they were, before and after a compaction."""
    manager = CompactManager(CompactConfig("gpt-5", window_tokens, exporter=CallbackExporter(events.append)))
    call = {"id": "c", "name": "read", "args": {"path": "a.py"}}
    marked = [
        HumanMessage("Keep this.", id="1", additional_kwargs={"protected": True}),
        AIMessage([{"type": "reasoning", "id": "rs_1"}], id="2", tool_calls=[call], additional_kwargs=MARK),
        ToolMessage("b", tool_call_id="c", artifact={"x": 1}, additional_kwargs=MARK),
        HumanMessage("Keep this.", id="3", additional_kwargs={"protected": True}),
    ]
    newest = HumanMessage("Go on.", id="4", additional_kwargs={"meta": {"ticket": 7}})
    history = [part for n in range(20) for part in (HumanMessage(f"{n} {LONG}"), AIMessage(f"{n} {LONG}"))]
    sent: list[list[Any]] = []

    def handler(request: Any) -> Any:
        sent.append(request.messages)
        return ModelResponse(result=[AIMessage("done")])

    request = ModelRequest(model=GenericFakeChatModel(messages=iter([])), messages=[*marked, *history, newest])
    CompactMiddleware(manager, session_id="s").wrap_model_call(request, handler)
    assert (len(sent[0]) < len(history)) == (window_tokens == 3_000)
    kept = [message for message in sent[0] if any(message is original for original in [*marked, newest])]
    assert list(map(id, kept)) == list(map(id, [*marked, newest]))
