"""The OpenAI Agents SDK through the provider's rules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import agents
import openai
import pydantic
import pytest
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    SQLiteSession,
    function_tool,
)
from compact import CompactManager
from compact.integrations.agents_sdk import compacting
from providers.checks import IMAGE, PDF, assert_valid, compaction_count, overflow_count, result
from providers.server import StrictProvider

MODELS = {"responses": OpenAIResponsesModel, "chat": OpenAIChatCompletionsModel}


@function_tool
def read(step: int, total: int) -> str:
    """Read a file."""
    return result(step, total)


class Report(pydantic.BaseModel):
    text: str
    count: int


@pytest.fixture
async def client(provider: StrictProvider) -> AsyncIterator[openai.AsyncOpenAI]:
    http_client = openai.DefaultAsyncHttpxClient(verify=False)
    async with openai.AsyncOpenAI(
        api_key="k", base_url=provider.openai_url, max_retries=0, http_client=http_client
    ) as running:
        yield running


@pytest.fixture(autouse=True)
def no_tracing() -> None:
    agents.set_tracing_disabled(True)


def new_agent(client: openai.AsyncOpenAI, api: str = "responses", **options: Any) -> Agent[Any]:
    model = MODELS[api]("gpt-5", client)
    return Agent("Worker", instructions="Read files.", model=model, tools=[read], **options)


async def say(agent: Agent[Any], text: Any, manager: CompactManager, **options: Any) -> Any:
    result = await Runner.run(agent, text, max_turns=200, **compacting(manager, **options), **_session(options))
    return result.final_output


def _session(options: dict[str, Any]) -> dict[str, Any]:
    return {"session": options["session"]} if "session" in options else {}


@pytest.mark.parametrize("api", MODELS)
async def test_a_long_session(
    api: str, provider: StrictProvider, client: openai.AsyncOpenAI, manager: CompactManager, events: list[Any]
) -> None:
    """Sixty calls in two runs of one session, with reasoning items and parallel tools."""
    provider.has_reasoning = True
    agent, session = new_agent(client, api), SQLiteSession("s1")
    assert "SECRET-a" in await say(agent, "work 44. SECRET-a", manager, session=session)
    await say(agent, "work 28 by 2", manager, session=session)
    assert_valid(provider, min_requests=60)
    assert compaction_count(events) >= 2
    session.close()


@pytest.mark.parametrize("api", MODELS)
async def test_streaming(
    api: str, provider: StrictProvider, client: openai.AsyncOpenAI, manager: CompactManager, events: list[Any]
) -> None:
    """A streamed run is compacted too."""
    provider.has_reasoning = True
    run = Runner.run_streamed(
        new_agent(client, api), "work 12", max_turns=50, **compacting(manager, session_id="streamed")
    )
    async for _ in run.stream_events():
        pass
    assert run.final_output == "Done."
    assert_valid(provider, min_requests=13)
    assert compaction_count(events)


async def test_handoffs_and_agents_as_tools(
    provider: StrictProvider, client: openai.AsyncOpenAI, manager: CompactManager, events: list[Any]
) -> None:
    """The prompt stays valid when another agent takes over, and when an agent is a tool."""
    provider.has_reasoning = True
    expert = new_agent(client)
    expert.name = "expert"
    helper = new_agent(client).as_tool(
        "ask_helper", "Ask the helper.", run_config=compacting(manager, session_id="helper")["run_config"]
    )
    expert.tools = [read, helper]
    front = new_agent(client, handoffs=[expert])
    answer = await say(
        front, "transfer expert, then ask ask_helper 10, then work 16. SECRET-a", manager, session_id="front"
    )
    assert "SECRET-a" in answer
    assert_valid(provider, min_requests=25)
    assert compaction_count(events)


async def test_structured_output_images_and_documents(
    provider: StrictProvider, client: openai.AsyncOpenAI, manager: CompactManager
) -> None:
    """An image and a PDF in the history and an output schema change nothing about the pairs."""
    agent = new_agent(client, output_type=Report)
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{IMAGE}", "detail": "auto"}
    file = {"type": "input_file", "filename": "plan.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}
    content = [{"type": "input_text", "text": "work 14"}, image, file]
    report = await say(agent, [{"role": "user", "content": content}], manager, session_id="s")
    assert report == Report(text="Done.", count=1)
    assert_valid(provider, min_requests=15)


@pytest.mark.req("A-OVF-2")
@pytest.mark.parametrize("report", ["http", "response.failed", "error"])
@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("api", MODELS)
async def test_overflows_are_recovered(
    api: str,
    is_streamed: bool,
    report: Any,
    provider: StrictProvider,
    client: openai.AsyncOpenAI,
    roomy_manager: CompactManager,
    events: list[Any],
) -> None:
    """A Model object recovers, also if the overflow is reported inside a stream."""
    if report != "http" and not is_streamed:
        pytest.skip("only a stream can report an overflow after it has started")
    provider.window_tokens, provider.overflow_report = 3_000, report
    agent, options = new_agent(client, api), compacting(roomy_manager, session_id="s")
    if is_streamed:
        run: Any = Runner.run_streamed(agent, "work 10", max_turns=50, **options)
        async for _ in run.stream_events():
            pass
    else:
        run = await Runner.run(agent, "work 10", max_turns=50, **options)
    assert run.final_output == "Done."
    assert overflow_count(events)
    assert_valid(provider)


@pytest.mark.req("A-ID-4")
@pytest.mark.parametrize("way", ["previous_response_id", "conversation_id"])
async def test_conversations_that_the_server_keeps(
    way: str, provider: StrictProvider, client: openai.AsyncOpenAI, manager: CompactManager
) -> None:
    """Tool outputs whose calls only the server has are sent."""
    provider.has_reasoning = True
    agent = new_agent(client)
    if way == "conversation_id":
        state: dict[str, Any] = {"conversation_id": (await client.conversations.create()).id}
    else:
        state = {"auto_previous_response_id": True}
    run = await Runner.run(agent, "work 12", max_turns=50, **state, **compacting(manager, session_id="s"))
    assert run.final_output == "Done."
    assert_valid(provider, min_requests=13)


@pytest.mark.req("A-ID-3")
@pytest.mark.parametrize("identity", ["session", "nothing"])
async def test_users_at_the_same_time_stay_apart(
    identity: str, provider: StrictProvider, client: openai.AsyncOpenAI, manager: CompactManager
) -> None:
    """Four users say the same at once, with one agent, and without a session with one `compacting` value."""
    agent, shared = new_agent(client), compacting(manager)

    async def converse(user: str) -> None:
        session = SQLiteSession(user) if identity == "session" else None
        arguments = compacting(manager, session=session) if session else shared
        first = await Runner.run(agent, f"Hello. SECRET-{user}", session=session, **arguments)
        history: Any = [*first.to_input_list(), {"role": "user", "content": "work 12 by 2"}]
        second = await Runner.run(agent, "work 12 by 2" if session else history, session=session, **arguments)
        assert f"SECRET-{user}" in second.final_output
        if session:
            session.close()

    await asyncio.gather(*(converse(user) for user in "abcd"))
    assert_valid(provider, min_requests=32)


@pytest.mark.req("A-ID-3")
async def test_one_compacting_value_and_concurrent_overflows(
    provider: StrictProvider, client: openai.AsyncOpenAI, roomy_manager: CompactManager, events: list[Any]
) -> None:
    """Each retry sends the conversation of its own run."""
    provider.window_tokens = 3_000
    agent, shared = new_agent(client), compacting(roomy_manager)

    async def converse(user: str) -> None:
        run = await Runner.run(agent, f"work 8. SECRET-{user}", max_turns=50, **shared)
        assert f"SECRET-{user}" in run.final_output

    await asyncio.gather(*(converse(user) for user in "abcdef"))
    assert overflow_count(events) >= 6
    assert_valid(provider)


async def test_a_canceled_run_can_be_resumed(
    provider: StrictProvider, client: openai.AsyncOpenAI, manager: CompactManager
) -> None:
    """A stream that is canceled leaves a session that goes on."""
    agent, session = new_agent(client), SQLiteSession("s1")
    await say(agent, "work 8", manager, session=session)
    provider.stream_gate.clear()
    run = Runner.run_streamed(agent, "work 3", session=session, **compacting(manager, session=session))
    task = asyncio.create_task(anext(run.stream_events().__aiter__()))
    await task
    run.cancel()
    provider.stream_gate.set()
    assert await say(agent, "work 8", manager, session=session) == "Done."
    assert_valid(provider)
    session.close()
