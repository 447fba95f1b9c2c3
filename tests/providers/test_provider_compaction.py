"""Compactions on the provider's side, by the clients and the Agents SDK: two tenants, each with a ledger of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import openai
import pytest
from agents import Agent, ModelSettings, OpenAIResponsesModel, Runner
from agents.tracing import set_tracing_disabled
from compact import CallbackExporter, CompactConfig, CompactManager
from compact.integrations.agents_sdk import compacting
from compact.integrations.anthropic import AnthropicMessages
from compact.integrations.openai import Responses
from compact.ledgers.inferred_ledger import UNDISCLOSED
from providers.server import StrictProvider

TENANTS = ["alice", "bob"]
KEYS = {name: "sk-ant-api03-" + f"{name}7Qp2" * 12 for name in TENANTS}
OPENAI_COMPACTS = [{"type": "compaction", "compact_threshold": 10}]
CLOSE = {"Connection": "close"}
TOOL = {"name": "read", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}


@pytest.fixture
def roomy(events: list[Any]) -> CompactManager:
    """A manager that does not compact, so that only the provider does."""
    return CompactManager(CompactConfig("gpt-5", 100_000, exporter=CallbackExporter(events.append)))


@pytest.fixture
def claude(provider: StrictProvider) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        api_key="k", base_url=provider.url, max_retries=0, http_client=anthropic.DefaultHttpxClient(verify=False)
    ) as client:
        yield client


@pytest.fixture
async def async_openai(provider: StrictProvider) -> AsyncIterator[openai.AsyncOpenAI]:
    set_tracing_disabled(True)
    http_client = openai.DefaultAsyncHttpxClient(verify=False)
    async with openai.AsyncOpenAI(
        api_key="k", base_url=provider.openai_url, max_retries=0, http_client=http_client
    ) as client:
        yield client


def history(tenant: str) -> list[Any]:
    """Return a rule, a credential and a decision of one tenant."""
    return [
        {"role": "user", "content": f"Never drop the table orders_{tenant}. The key is {KEYS[tenant]}."},
        {"role": "assistant", "content": f"We decided to use the port 5{len(tenant)}32 for db-{tenant}.internal."},
        {"role": "user", "content": "Hello."},
    ]


def tool_history(tenant: str) -> list[Any]:
    """Return three tool results of one tenant, of which each names a file."""
    messages: list[Any] = history(tenant)[:1]
    for number in (1, 2, 3):
        path = f"/srv/{tenant}/part{number}.py"
        call = {"type": "tool_use", "id": f"toolu_{tenant}{number}", "name": "read", "input": {"path": "x"}}
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": f"Wrote {path} with {KEYS[tenant]}."}
        messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return messages


def ledgers(events: list[Any]) -> dict[str, dict[str, Any]]:
    """Return the event of each tenant. It contains no credential and nothing of the other tenant."""
    matches = [event for event in events if event["event"] == "compact.provider_compaction"]
    by_tenant = {event["session_id"]: event for event in matches}
    assert sorted(by_tenant) == TENANTS
    assert len(matches) == len(TENANTS)
    for tenant, event in by_tenant.items():
        other = next(name for name in TENANTS if name != tenant)
        assert other not in repr(event)
    assert not any(key in repr(events) for key in KEYS.values())
    assert all(entry["inferred"] is True for event in matches for entry in event["payload"]["ledger"])
    return by_tenant


def assert_undisclosed(event: dict[str, Any], count: int) -> None:
    entries = event["payload"]["ledger"]
    assert [entry["id"] for entry in entries] == [f"m{number}" for number in range(1, count + 1)]
    assert {(entry["fate"], entry["rule"], entry["into"]) for entry in entries} == {
        ("summarized", "the provider does not disclose this summary", event["properties"]["item_id"])
    }
    assert event["properties"]["note"] == UNDISCLOSED
    assert event["properties"]["fates"] == {"summarized": count}
    assert "facts_total" not in event["properties"]
    assert not event["payload"]["lost"]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_an_openai_client(
    is_streamed: bool, provider: StrictProvider, roomy: CompactManager, events: list[Any]
) -> None:
    """Every message is inferred to be in the encrypted item, and no fact is counted."""

    def ask(tenant: str) -> None:
        with openai.OpenAI(api_key="k", base_url=provider.openai_url, max_retries=0, default_headers=CLOSE) as client:
            responses = Responses(client, roomy, session_id=tenant)
            reply = responses.create(
                model="gpt-5", input=history(tenant), context_management=OPENAI_COMPACTS, stream=is_streamed
            )
            if is_streamed:
                list(reply)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(ask, TENANTS))
    for event in ledgers(events).values():
        assert_undisclosed(event, 3)
    assert provider.rejections == []


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_the_agents_sdk(
    is_streamed: bool,
    provider: StrictProvider,
    async_openai: openai.AsyncOpenAI,
    roomy: CompactManager,
    events: list[Any],
) -> None:
    """The same, for two runs at once with one agent."""
    settings = ModelSettings(extra_args={"context_management": OPENAI_COMPACTS})
    agent = Agent(name="worker", model=OpenAIResponsesModel("gpt-5", async_openai), model_settings=settings)

    async def ask(tenant: str) -> None:
        if not is_streamed:
            await Runner.run(agent, history(tenant), **compacting(roomy, session_id=tenant))
            return
        run = Runner.run_streamed(agent, history(tenant), **compacting(roomy, session_id=tenant))
        async for _ in run.stream_events():
            pass

    await asyncio.gather(*map(ask, TENANTS))
    for event in ledgers(events).values():
        assert_undisclosed(event, 3)
    assert provider.rejections == []


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_compaction_block_of_an_anthropic_client(
    is_streamed: bool, provider: StrictProvider, claude: anthropic.Anthropic, roomy: CompactManager, events: list[Any]
) -> None:
    """The summary has the rule and not the decision, so the message with the decision was dropped."""
    compact_edit = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 10}}
    for tenant in TENANTS:
        reply = AnthropicMessages(claude.beta, roomy, session_id=tenant).create(
            model="claude-opus-4-6",
            max_tokens=100,
            messages=history(tenant),
            context_management={"edits": [compact_edit]},
            betas=["compact-2026-01-12"],
            stream=is_streamed,
        )
        if is_streamed:
            list(reply)
    for tenant, event in ledgers(events).items():
        properties, payload = event["properties"], event["payload"]
        assert [entry["fate"] for entry in payload["ledger"]] == ["summarized", "dropped", "summarized"]
        assert payload["ledger"][0]["into"] == payload["after"][0]["id"]
        assert properties["is_disclosed"] is True
        assert 0 < properties["facts_kept"] < properties["facts_total"]
        assert properties["facts_total"] - properties["facts_kept"] == len(payload["lost"])
        assert f"db-{tenant}.internal" in repr(payload["lost"])
        assert "Never drop" not in repr(payload["lost"])
    assert provider.rejections == []


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_context_edit_of_an_anthropic_client(
    is_streamed: bool, provider: StrictProvider, claude: anthropic.Anthropic, roomy: CompactManager, events: list[Any]
) -> None:
    """The two oldest of three results were cleared, and only their files are lost."""
    edit = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": 10},
        "keep": {"type": "tool_uses", "value": 1},
    }
    for tenant in TENANTS:
        reply = AnthropicMessages(claude.beta, roomy, session_id=tenant).create(
            model="claude-opus-4-6",
            max_tokens=100,
            messages=tool_history(tenant),
            tools=[TOOL],
            context_management={"edits": [edit]},
            betas=["context-management-2025-06-27"],
            stream=is_streamed,
        )
        if is_streamed:
            list(reply)
    for tenant, event in ledgers(events).items():
        fates = {entry["id"]: entry["fate"] for entry in event["payload"]["ledger"]}
        assert [name for name, fate in fates.items() if fate == "cleared"] == ["m3", "m5"]
        assert event["properties"]["fates"] == {"kept": 5, "cleared": 2}
        assert event["properties"]["cleared_tool_uses"] == 2
        lost = {fact["text"] for fact in event["payload"]["lost"]}
        assert {f"{tenant}/part1.py", f"{tenant}/part2.py"} <= lost
        assert f"{tenant}/part3.py" not in lost
        assert {fact["source_ids"][0] for fact in event["payload"]["lost"]} == {"m3", "m5"}
    assert provider.rejections == []
