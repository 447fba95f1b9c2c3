"""LangChain agents and LangGraph graphs with real chat models, through the providers' rules."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pydantic
import pytest
from compact import CompactConfig, CompactManager, CompactPolicy
from compact.integrations.langchain import CompactMiddleware
from compact.integrations.langgraph import pre_model_hook
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent
from providers.checks import IMAGE, PDF, assert_valid, compaction_count, overflow_count, result
from providers.conversation import Call, Prompt, Turn, worker
from providers.server import StrictProvider
from wait import wait_until

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
# The hook and the middleware have different conversions. Each meets the providers with the most rules.
WAYS = [
    ("chat", "langchain"),
    ("responses", "langchain"),
    ("anthropic", "langchain"),
    ("responses", "langgraph"),
    ("anthropic", "langgraph"),
]


RULE = HumanMessage("Never delete the database.", additional_kwargs={"protected": True, "meta": {"ticket": 7}})


def read(step: int, total: int) -> str:
    """Read a file."""
    return result(step, total)


class Report(pydantic.BaseModel):
    """The result of the work."""

    text: str


def new_model(api: str, provider: StrictProvider, **options: Any) -> Any:
    if api == "anthropic":
        return ChatAnthropic(
            model_name="claude-opus-4-6", api_key="k", base_url=provider.url, max_retries=0, max_tokens=4_096, **options
        )
    return ChatOpenAI(
        model="gpt-5",
        api_key="k",
        base_url=provider.openai_url,
        max_retries=0,
        use_responses_api=api == "responses",
        **options,
    )


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}, "recursion_limit": 400}


def new_agent(kind: str, model: Any, manager: CompactManager, **options: Any) -> Any:
    """Return an agent of LangChain, or the same with LangGraph's hook."""
    if kind == "langgraph":
        hook = pre_model_hook(manager, tools=[read])
        return create_react_agent(model, [read], pre_model_hook=hook, checkpointer=InMemorySaver(), **options)
    return create_agent(model, [read], middleware=[CompactMiddleware(manager)], checkpointer=InMemorySaver(), **options)


async def say(agent: Any, content: Any, name: str = "t1") -> str:
    result = await agent.ainvoke({"messages": [HumanMessage(content)]}, thread(name))
    return str(result["messages"][-1].text)


@pytest.mark.parametrize(("api", "kind"), WAYS)
async def test_a_session_of_two_turns(
    api: str, kind: str, provider: StrictProvider, manager: CompactManager, events: list[Any]
) -> None:
    """Two turns of a thread with more than 40 calls, parallel tools, reasoning and protected messages."""
    provider.has_reasoning = True
    options: Any = {"thinking": {"type": "adaptive"}} if api == "anthropic" else {}
    agent = new_agent(kind, new_model(api, provider, **options), manager)
    state = await agent.ainvoke({"messages": [RULE, HumanMessage("work 36. SECRET-a")]}, thread("t1"))
    assert "SECRET-a" in state["messages"][-1].text
    assert RULE.text in provider.requests[-1].text
    await say(agent, "work 8 by 2")
    assert_valid(provider, min_requests=41)
    assert RULE.text in provider.requests[-1].text
    assert compaction_count(events) >= 2


@pytest.mark.parametrize("kind", ["langchain", "langgraph"])
@pytest.mark.parametrize("renderer", ["layered", "inplace", "bridge"])
async def test_thinking_leads_its_tool_turn(renderer: str, kind: str, provider: StrictProvider) -> None:
    """The summary of each layout stays apart from a turn that starts with thinking."""
    manager = CompactManager(CompactConfig("claude-opus-4-6", 5_000, policy=CompactPolicy(renderer=renderer)))
    model = new_model("anthropic", provider, thinking={"type": "adaptive"})
    await say(new_agent(kind, model, manager), "work 20. SECRET-a")
    assert_valid(provider, min_requests=20)


@pytest.mark.parametrize(("api", "kind"), WAYS[1:4])
async def test_streaming_images_and_documents(
    api: str, kind: str, provider: StrictProvider, manager: CompactManager, events: list[Any]
) -> None:
    """A streamed run with an image and a PDF in its first message."""
    agent = new_agent(kind, new_model(api, provider), manager)
    image = {"type": "image", "base64": IMAGE, "mime_type": "image/png"}
    file = {"type": "file", "base64": PDF, "mime_type": "application/pdf", "filename": "plan.pdf"}
    content: Any = [{"type": "text", "text": "work 12"}, image, file]
    async for _ in agent.astream({"messages": [HumanMessage(content)]}, thread("t"), stream_mode="messages"):
        pass
    assert_valid(provider, min_requests=13)
    assert all(request.body.get("stream") for request in provider.requests)
    assert compaction_count(events)


@pytest.mark.parametrize("strategy", [ToolStrategy, ProviderStrategy])
async def test_structured_output(
    strategy: Any, provider: StrictProvider, manager: CompactManager, events: list[Any]
) -> None:
    """The schema is a tool, or the response format of the provider."""
    agent = new_agent("langchain", new_model("chat", provider), manager, response_format=strategy(Report))
    if strategy is ToolStrategy:
        provider.model = _report_at_the_end
    state = await agent.ainvoke({"messages": [HumanMessage("work 8")]}, thread("t"))
    assert state["structured_response"] == Report(text="Done.")
    assert_valid(provider, min_requests=9)
    assert compaction_count(events)


def _report_at_the_end(prompt: Prompt) -> Turn:
    turn = worker(prompt)
    return turn if turn.calls else Turn(calls=(Call("Report", {"text": turn.text}),))


@pytest.mark.req("A-OVF-2")
@pytest.mark.parametrize(
    ("api", "is_streamed", "report"),
    [
        ("chat", True, "http"),
        ("responses", True, "http"),
        ("responses", True, "response.failed"),
        ("responses", True, "error"),
        ("anthropic", False, "http"),
    ],
)
async def test_overflows_are_recovered(
    api: str, is_streamed: bool, report: Any, provider: StrictProvider, roomy_manager: CompactManager, events: list[Any]
) -> None:
    """The middleware sends a shorter request, also if the overflow is reported inside a stream."""
    provider.window_tokens, provider.overflow_report = 3_000, report
    agent = new_agent("langchain", new_model(api, provider, streaming=is_streamed), roomy_manager)
    assert await say(agent, "work 8") == "Done."
    assert overflow_count(events)
    assert_valid(provider)


@pytest.mark.req("A-ID-3")
@pytest.mark.parametrize("identity", ["thread", "nothing"])
@pytest.mark.parametrize("kind", ["langchain", "langgraph"])
async def test_users_at_the_same_time_stay_apart(
    kind: str, identity: str, provider: StrictProvider, manager: CompactManager, events: list[Any]
) -> None:
    """Two users in threads and two in tasks say the same to one agent."""
    model = new_model("chat", provider)
    if identity == "thread":
        agent = new_agent(kind, model, manager)
    elif kind == "langgraph":
        agent = create_react_agent(model, [read], pre_model_hook=pre_model_hook(manager))
    else:
        agent = create_agent(model, [read], middleware=[CompactMiddleware(manager)])
    answers: dict[str, str] = {}

    def arguments(user: str) -> tuple[Any, Any]:
        config = thread(user) if identity == "thread" else {"recursion_limit": 400}
        return {"messages": [HumanMessage("Hello."), HumanMessage(f"work 10 by 2. SECRET-{user}")]}, config

    def converse(user: str) -> None:
        answers[user] = agent.invoke(*arguments(user))["messages"][-1].text

    async def aconverse(user: str) -> None:
        answers[user] = (await agent.ainvoke(*arguments(user)))["messages"][-1].text

    threads = [threading.Thread(target=converse, args=(user,)) for user in "ab"]
    for running in threads:
        running.start()
    await asyncio.gather(*map(aconverse, "cd"))
    await asyncio.to_thread(lambda: [running.join() for running in threads])
    assert_valid(provider, min_requests=24)
    assert compaction_count(events)
    assert {user: f"SECRET-{user}" in text for user, text in answers.items()} == dict.fromkeys("abcd", True)


async def test_a_canceled_run_can_be_resumed(provider: StrictProvider, manager: CompactManager) -> None:
    """A task that is canceled during a model call leaves a thread that goes on."""
    agent = new_agent("langchain", new_model("chat", provider, streaming=True), manager)
    await say(agent, "work 3")
    count = len(provider.requests)
    provider.stream_gate.clear()
    task = asyncio.create_task(say(agent, "work 3"))
    assert await asyncio.to_thread(wait_until, lambda: len(provider.requests) > count)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    provider.stream_gate.set()
    assert await say(agent, "work 6") == "Done."
    assert_valid(provider)
