"""pydantic-ai with real models, through the providers' rules."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pydantic
import pytest
from compact import CompactConfig, CompactManager, CompactPolicy
from compact.integrations.pydantic_ai import CompactCapability
from providers.checks import IMAGE, PDF, assert_valid, compaction_count, overflow_count, result
from providers.server import StrictProvider
from pydantic_ai import Agent, BinaryContent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits
from wait import wait_until

APIS = ("chat", "responses", "anthropic")
NO_LIMIT = UsageLimits(request_limit=None)


def read(step: int, total: int) -> str:
    """Read a file."""
    return result(step, total)


class Report(pydantic.BaseModel):
    text: str


@pytest.fixture
async def models(provider: StrictProvider) -> AsyncIterator[dict[str, Any]]:
    options: Any = {"api_key": "k", "max_retries": 0}
    async with (
        openai.AsyncOpenAI(
            **options, base_url=provider.openai_url, http_client=openai.DefaultAsyncHttpxClient(verify=False)
        ) as client,
        anthropic.AsyncAnthropic(
            **options, base_url=provider.url, http_client=anthropic.DefaultAsyncHttpxClient(verify=False)
        ) as claude,
    ):
        openai_provider = OpenAIProvider(openai_client=client)
        yield {
            "chat": OpenAIChatModel("gpt-5", provider=openai_provider),
            "responses": OpenAIResponsesModel("gpt-5", provider=openai_provider),
            "anthropic": AnthropicModel("claude-opus-4-6", provider=AnthropicProvider(anthropic_client=claude)),
        }


def new_agent(model: Any, manager: CompactManager, **options: Any) -> Agent[Any, Any]:
    session_id = options.pop("session_id", None)
    return Agent(model, tools=[read], capabilities=[CompactCapability(manager, session_id=session_id)], **options)


@pytest.mark.parametrize("api", APIS)
async def test_a_long_session(
    api: str, provider: StrictProvider, models: dict[str, Any], manager: CompactManager, events: list[Any]
) -> None:
    """Forty-two calls in two runs of a conversation, with parallel tools and reasoning."""
    provider.has_reasoning = True
    agent = new_agent(models[api], manager, session_id="s")
    first = await agent.run("work 36. SECRET-a", usage_limits=NO_LIMIT)
    assert "SECRET-a" in first.output
    await agent.run("work 8 by 2", message_history=first.all_messages(), usage_limits=NO_LIMIT)
    assert_valid(provider, min_requests=42)
    assert compaction_count(events) >= 2


@pytest.mark.parametrize("renderer", ["layered", "inplace", "bridge"])
async def test_thinking_leads_its_tool_turn(renderer: str, provider: StrictProvider, models: dict[str, Any]) -> None:
    """The summary of each layout stays apart from a turn that starts with thinking."""
    manager = CompactManager(CompactConfig("claude-opus-4-6", 5_000, policy=CompactPolicy(renderer=renderer)))
    thinking = {"anthropic_thinking": {"type": "adaptive"}, "max_tokens": 4_096}
    agent = new_agent(models["anthropic"], manager, session_id="s", model_settings=thinking)
    await agent.run("work 20. SECRET-a", usage_limits=NO_LIMIT)
    assert_valid(provider, min_requests=20)


@pytest.mark.parametrize("api", APIS)
async def test_streaming_images_documents_and_structured_output(
    api: str, provider: StrictProvider, models: dict[str, Any], manager: CompactManager, events: list[Any]
) -> None:
    """A streamed run with an image and a PDF, whose answer is a call of the output tool."""
    agent = new_agent(models[api], manager, session_id="s", output_type=Report)
    image = BinaryContent(base64.b64decode(IMAGE), media_type="image/png")
    file = BinaryContent(base64.b64decode(PDF), media_type="application/pdf")
    async with agent.run_stream(["work 12", image, file], usage_limits=NO_LIMIT) as run:
        assert await run.get_output() == Report(text="Done.")
    assert_valid(provider, min_requests=13)
    assert compaction_count(events)


@pytest.mark.req("A-OVF-2")
@pytest.mark.parametrize("api", APIS)
async def test_overflows_are_recovered(
    api: str, provider: StrictProvider, models: dict[str, Any], roomy_manager: CompactManager, events: list[Any]
) -> None:
    """The request is sent again with fewer messages."""
    provider.window_tokens = 3_000
    agent = new_agent(models[api], roomy_manager, session_id="s")
    assert (await agent.run("work 10", usage_limits=NO_LIMIT)).output == "Done."
    assert overflow_count(events)
    assert_valid(provider)


@pytest.mark.req("A-ID-3")
@pytest.mark.parametrize("identity", ["shared", "nothing"])
@pytest.mark.parametrize("window_tokens", [None, 3_000])
async def test_users_at_the_same_time_stay_apart(
    window_tokens: int | None,
    identity: str,
    provider: StrictProvider,
    models: dict[str, Any],
    manager: CompactManager,
    roomy_manager: CompactManager,
) -> None:
    """Four users say the same to one agent, even under one session id, and with overflows."""
    provider.window_tokens = window_tokens
    used = roomy_manager if window_tokens else manager
    agent = new_agent(models["chat"], used, session_id="shared" if identity == "shared" else None)

    async def converse(user: str) -> None:
        run = await agent.run(f"work 10. SECRET-{user}", usage_limits=NO_LIMIT)
        assert f"SECRET-{user}" in run.output

    await asyncio.gather(*map(converse, "abcd"))
    assert_valid(provider, min_requests=44)


async def test_a_canceled_run_can_be_resumed(
    provider: StrictProvider, models: dict[str, Any], manager: CompactManager
) -> None:
    """A canceled run leaves a conversation that goes on."""
    agent = new_agent(models["chat"], manager, session_id="s")
    first = await agent.run("work 8", usage_limits=NO_LIMIT)
    history = first.all_messages()
    count = len(provider.requests)
    provider.stream_gate.clear()

    async def read_stream() -> None:
        async with agent.run_stream("work 3", message_history=history) as run:
            await run.get_output()

    task = asyncio.create_task(read_stream())
    assert await asyncio.to_thread(wait_until, lambda: len(provider.requests) > count)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    provider.stream_gate.set()
    assert (await agent.run("work 8", message_history=history, usage_limits=NO_LIMIT)).output == "Done."
    assert_valid(provider)
