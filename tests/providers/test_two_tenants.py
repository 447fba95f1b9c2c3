"""Two users at once, through the frameworks' own clients and a strict provider: no foreign content, nothing invalid."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import anthropic
import openai
import pytest
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIProvider,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
    set_trace_processors,
)
from agents.tracing import set_tracing_disabled
from builders import Recorder
from compact import CompactConfig, CompactManager, CompactPolicy, InsufficientBudget, NoopEstimator
from compact.integrations.agents_sdk import CompactingHooks, agents_filter, compacting
from compact.integrations.generic import before_model_call
from compact.integrations.langchain import CompactMiddleware
from compact.integrations.pydantic_ai import CompactCapability
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from providers.server import OverflowReport, StrictProvider
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider as PydanticOpenAIProvider

FILLER = "lorem ipsum dolor " * 30
# Without this, the open connections of a client would be reported when they are collected.
CLOSE = {"Connection": "close"}
USERS = ["SECRET-ALICE", "SECRET-BOB"]
Ask = Callable[[str], Awaitable[str]]


@pytest.fixture(autouse=True)
def untraced() -> Iterator[None]:
    """Disable tracing, so that the SDK gives no id at all."""
    set_trace_processors([])
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)


@pytest.fixture
def provider() -> Iterator[StrictProvider]:
    with StrictProvider() as running:
        yield running


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def new_manager(recorder: Recorder, window: int = 1_500, **policy: Any) -> CompactManager:
    settings = {"keep_recent_turns": 1, "keep_tool_io_pairs": 1, "hard_cap_buffer": 50, "min_gain_pct": 0.0, **policy}
    config = CompactConfig(
        "gpt-5", window, policy=CompactPolicy(**settings), token_estimator=NoopEstimator(), exporter=recorder
    )
    return CompactManager(config)


@function_tool(strict_mode=False)
def read(step: int, total: int) -> str:
    """Read a part."""
    return f"step {step}/{total} {FILLER}"


def read_part(step: int, total: int) -> str:
    """Read a part."""
    return f"step {step}/{total} {FILLER}"


def sdk_client(provider: StrictProvider) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key="k", base_url=provider.openai_url, max_retries=0, default_headers=CLOSE)


def sdk_ask(manager: CompactManager, provider: StrictProvider, kind: str, *, is_streamed: bool = False) -> Ask:
    """Return a function that runs an agent. All runs share one agent and one value of `compacting`."""
    client = sdk_client(provider)
    models: dict[str, Any] = {
        "name": "gpt-5",
        "responses": OpenAIResponsesModel("gpt-5", client),
        "chat": OpenAIChatCompletionsModel("gpt-5", client),
    }
    agent = Agent(name="worker", instructions="Work.", tools=[read], model=models[kind])
    shared = compacting(manager, run_config=RunConfig(model_provider=OpenAIProvider(openai_client=client)))

    async def ask(question: str) -> str:
        if not is_streamed:
            return str((await Runner.run(agent, question, max_turns=30, **shared)).final_output)
        result = Runner.run_streamed(agent, question, max_turns=30, **shared)
        async for _ in result.stream_events():
            pass
        return str(result.final_output)

    return ask


def chat_model(provider: StrictProvider) -> ChatOpenAI:
    return ChatOpenAI(model="gpt-5", base_url=provider.openai_url, api_key="k", max_retries=0, default_headers=CLOSE)  # type: ignore[call-arg]


def langchain_ask(manager: CompactManager, provider: StrictProvider, kind: str) -> Ask:
    model: Any = (
        ChatAnthropic(model="claude-opus-4-6", base_url=provider.url, api_key="k", max_retries=0, default_headers=CLOSE)  # type: ignore[call-arg]
        if kind == "anthropic"
        else chat_model(provider)
    )
    agent = create_agent(model, [read_part], middleware=[CompactMiddleware(manager)], system_prompt="Work.")

    async def ask(question: str) -> str:
        state = await agent.ainvoke({"messages": [HumanMessage(question)]}, {"recursion_limit": 80})
        return str(state["messages"][-1].text)

    return ask


def pydantic_ask(manager: CompactManager, provider: StrictProvider, kind: str, **options: Any) -> Ask:
    model: Any = (
        AnthropicModel(
            "claude-opus-4-6",
            provider=AnthropicProvider(
                anthropic_client=anthropic.AsyncAnthropic(
                    api_key="k", base_url=provider.url, max_retries=0, default_headers=CLOSE
                )
            ),
        )
        if kind == "anthropic"
        else OpenAIChatModel("gpt-5", provider=PydanticOpenAIProvider(openai_client=sdk_client(provider)))
    )
    agent = PydanticAgent(
        model, instructions="Work.", capabilities=[CompactCapability(manager, **options)], tools=[read_part], retries=3
    )

    async def ask(question: str) -> str:
        return str((await agent.run(question)).output)

    return ask


WAYS: dict[str, Callable[[CompactManager, StrictProvider], Ask]] = {
    "agents, model name": lambda manager, provider: sdk_ask(manager, provider, "name"),
    "agents, Responses model": lambda manager, provider: sdk_ask(manager, provider, "responses"),
    "agents, streamed": lambda manager, provider: sdk_ask(manager, provider, "responses", is_streamed=True),
    "agents, chat model": lambda manager, provider: sdk_ask(manager, provider, "chat"),
    "langchain, openai": lambda manager, provider: langchain_ask(manager, provider, "openai"),
    "langchain, anthropic": lambda manager, provider: langchain_ask(manager, provider, "anthropic"),
    "pydantic-ai, openai": lambda manager, provider: pydantic_ask(manager, provider, "openai"),
    "pydantic-ai, anthropic": lambda manager, provider: pydantic_ask(manager, provider, "anthropic"),
    "pydantic-ai, one id": lambda manager, provider: pydantic_ask(manager, provider, "openai", session_id="shared"),
}


def question(secret: str, steps: int = 8) -> str:
    """Return the same words for each user, with the secret in them."""
    return f"Hello. My code is {secret}. Please work {steps}."


@pytest.mark.req("A-ID-3")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("window_tokens", [None, 1_100], ids=["", "overflow"])
async def test_concurrent_users_stay_apart(
    way: str, window_tokens: int | None, provider: StrictProvider, recorder: Recorder
) -> None:
    """No id is given. Each prompt has the code of one user, also in the requests after an overflow."""
    provider.window_tokens = window_tokens
    manager = new_manager(recorder, window=4_000 if window_tokens else 1_500)
    ask = WAYS[way](manager, provider)
    answers = await asyncio.gather(*(ask(question(secret)) for secret in USERS))
    assert provider.mixed == []
    assert provider.rejections == []
    if window_tokens:
        assert provider.overflows
        assert recorder.of("compact.overflow_recovered")
        assert all(answer.startswith("Done.") for answer in answers)
    else:
        assert [secret in answer for secret, answer in zip(USERS, answers, strict=True)] == [True, True]
        assert recorder.of("compact.pruned_messages")


@pytest.mark.req("A-ID-3")
@pytest.mark.parametrize("way", ["agents, Responses model", "langchain, openai"])
def test_users_in_threads_stay_apart(way: str, provider: StrictProvider, recorder: Recorder) -> None:
    """Each thread has its own event loop, and both use the same agent."""
    ask = WAYS[way](new_manager(recorder), provider)
    barrier = threading.Barrier(len(USERS))

    def run(secret: str) -> str:
        barrier.wait()
        return asyncio.run(ask(question(secret, steps=6)))  # type: ignore[arg-type]

    with ThreadPoolExecutor(len(USERS)) as pool:
        answers = list(pool.map(run, USERS))
    assert provider.mixed == []
    assert provider.rejections == []
    assert [secret in answer for secret, answer in zip(USERS, answers, strict=True)] == [True, True]


@pytest.mark.req("A-ID-1")
@pytest.mark.parametrize("way", ["agents, model name", "langchain, openai"])
async def test_runs_without_an_id_are_sessions_of_their_own(
    way: str, provider: StrictProvider, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two runs with exactly the same words are two sessions. One warning says how to give them an id."""
    ask = WAYS[way](new_manager(recorder), provider)
    for _ in range(2):
        await ask("Please work 2.")
    assert len({event["session_id"] for event in recorder.of("compact.check")}) == 2
    assert [event["properties"]["code"] for event in recorder.of("compact.warning")] == ["session_unidentified"]
    assert capsys.readouterr().err.count("No session id was given") == 1


@pytest.mark.req("A-OVF-2")
@pytest.mark.parametrize("report", ["http", "response.failed", "error"])
async def test_an_overflow_inside_a_stream_is_recovered(
    report: OverflowReport, provider: StrictProvider, recorder: Recorder
) -> None:
    """The provider starts the stream before it rejects the length. A model object recovers like a model name."""
    provider.window_tokens, provider.overflow_report = 1_100, report
    ask = sdk_ask(new_manager(recorder, window=4_000), provider, "responses", is_streamed=True)
    assert (await ask(question("SECRET-ALICE"))).startswith("Done.")
    assert provider.overflows
    assert provider.rejections == []


@pytest.mark.req("A-ID-4")
@pytest.mark.parametrize("kind", ["name", "responses"])
@pytest.mark.parametrize("state", ["conversation_id", "previous_response_id", "auto_previous_response_id", "filter"])
async def test_a_conversation_that_the_server_keeps_is_sent_as_it_is(
    state: str, kind: str, provider: StrictProvider, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    """The outputs of tools arrive without their calls, and one warning says that there is nothing to compact."""
    client = sdk_client(provider)
    model: Any = OpenAIResponsesModel("gpt-5", client) if kind == "responses" else "gpt-5"
    agent = Agent(name="worker", tools=[read], model=model)
    config = RunConfig(model_provider=OpenAIProvider(openai_client=client))
    manager = new_manager(recorder)
    options: dict[str, Any] = {"auto_previous_response_id": True}
    if state == "conversation_id":
        options = {"conversation_id": (await client.conversations.create()).id}
    elif state == "previous_response_id":
        options = {"previous_response_id": (await client.responses.create(model="gpt-5", input="Hello.")).id}
    arguments = compacting(manager, session_id="s", run_config=config)
    if state == "filter":
        filtered = RunConfig(
            model_provider=config.model_provider, call_model_input_filter=agents_filter(manager, session_id="s")
        )
        arguments = {"run_config": filtered, "hooks": CompactingHooks(manager, session_id="s")}
    for _ in range(2):
        result = await Runner.run(agent, question("SECRET-ALICE", steps=4), max_turns=30, **options, **arguments)
        assert "SECRET-ALICE" in str(result.final_output)
    assert provider.rejections == []
    codes = [event["properties"]["code"] for event in recorder.of("compact.warning")]
    assert codes.count("server_managed") == 1
    assert capsys.readouterr().err.count("nothing to compact") == 1


async def test_a_model_name_keeps_the_default_settings_of_the_sdk(provider: StrictProvider, recorder: Recorder) -> None:
    """The request has the same reasoning and verbosity as one without compaction."""
    client = sdk_client(provider)
    config = RunConfig(model_provider=OpenAIProvider(openai_client=client))
    agent = Agent(name="worker", tools=[read], model="gpt-5")
    await Runner.run(agent, "Hello.", run_config=config)
    await Runner.run(agent, "Hello.", **compacting(new_manager(recorder), session_id="s", run_config=config))
    plain, compacted = (
        {k: v for k, v in request.body.items() if k != "prompt_cache_key"} for request in provider.requests
    )
    assert compacted == plain


async def test_marks_of_protected_messages_are_kept_and_never_sent(
    provider: StrictProvider, recorder: Recorder
) -> None:
    """Each framework has one way to protect a message."""
    rule = "Never use the color red."
    items: list[Any] = [{"role": "user", "content": rule, "meta": {"protected": True}}]
    for number in range(12):
        items.append({"role": "user", "content": f"{number} {FILLER}"})
        items.append({"role": "assistant", "content": "ok"})
    client = sdk_client(provider)
    agent = Agent(name="worker", model=OpenAIResponsesModel("gpt-5", client))
    await Runner.run(agent, [*items, {"role": "user", "content": "Hello."}], **compacting(new_manager(recorder)))
    assert {"role": "user", "content": rule} in provider.requests[-1].messages

    filler = [message for n in range(12) for message in (HumanMessage(f"{n} {FILLER}"), AIMessage("ok"))]
    chain = create_agent(
        chat_model(provider), [], middleware=[CompactMiddleware(new_manager(recorder), session_id="s")]
    )
    protected = HumanMessage(rule, additional_kwargs={"protected": True})
    await chain.ainvoke({"messages": [protected, *filler, HumanMessage("Hello.")]})
    assert {"role": "user", "content": rule} in provider.requests[-1].messages

    history: list[Any] = [ModelRequest(parts=[UserPromptPart(rule)], metadata={"protected": True})]
    for number in range(12):
        history.append(ModelResponse(parts=[TextPart("ok")]))
        history.append(ModelRequest(parts=[UserPromptPart(f"{number} {FILLER}")]))
    history.append(ModelResponse(parts=[TextPart("ok")]))
    model = OpenAIChatModel("gpt-5", provider=PydanticOpenAIProvider(openai_client=client))
    await PydanticAgent(model, capabilities=[CompactCapability(new_manager(recorder))]).run(
        "Hello.", message_history=history
    )
    assert {"role": "user", "content": rule} in provider.requests[-1].messages
    assert len(recorder.of("compact.pruned_messages")) == 3
    assert all(len(request.messages) < 20 for request in provider.requests)
    assert provider.rejections == []


def test_a_shortened_langchain_result_stays_an_error() -> None:
    """Name, status and artifact stay. Only the text is shorter."""
    sent: list[Any] = []

    def handler(request: Any) -> Any:
        sent.extend(request.messages)
        return AIMessage("done")

    from langchain.agents.middleware.types import ModelRequest as ChainRequest

    result = ToolMessage("word " * 4_000, tool_call_id="c1", name="read", status="error", artifact={"rows": 3})
    messages = [HumanMessage("Read."), AIMessage("", tool_calls=[{"id": "c1", "name": "read", "args": {}}]), result]
    manager = new_manager(Recorder(), window=4_000, tool_output_max_tokens=200)
    request = ChainRequest(model=None, messages=messages)  # type: ignore[arg-type]
    CompactMiddleware(manager, session_id="s").wrap_model_call(request, handler)
    assert len(sent[-1].content) < len(result.content)
    assert (sent[-1].status, sent[-1].name, sent[-1].artifact) == ("error", "read", {"rows": 3})


async def test_a_shortened_pydantic_ai_result_keeps_its_tool() -> None:
    """The result is still that of the tool `read`, with its outcome."""
    sent: list[Any] = []

    def answer(messages: list[Any], info: Any) -> ModelResponse:
        sent.extend(part for message in messages for part in message.parts)
        return ModelResponse(parts=[TextPart("done")])

    manager = new_manager(Recorder(), window=4_000, tool_output_max_tokens=200)
    agent = PydanticAgent(FunctionModel(answer), capabilities=[CompactCapability(manager)])
    result = ToolReturnPart("read", "word " * 4_000, "c1", metadata={"rows": 3}, outcome="failed")
    history = [
        ModelRequest(parts=[UserPromptPart("Read.")]),
        ModelResponse(parts=[ToolCallPart("read", {}, "c1")]),
        ModelRequest(parts=[result]),
        ModelResponse(parts=[TextPart("Read.")]),
    ]
    await agent.run("And now?", message_history=history)
    part = next(part for part in sent if isinstance(part, ToolReturnPart))
    assert len(str(part.content)) < 4_000
    assert (part.tool_name, part.outcome, part.metadata) == ("read", "failed", {"rows": 3})


PINNED = [{"role": "user", "content": f"rule {n} {FILLER}", "meta": {"protected": True}} for n in range(8)]


@pytest.mark.parametrize("action", ["reduce", "raise"])
def test_messages_that_must_stay_and_do_not_fit_never_cause_the_raw_history(
    action: str, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    """The smallest valid prompt is sent and reported, or the error is raised."""

    class Context:
        session_id = "s"
        messages: list[Any] = [*PINNED, *({"role": "user", "content": f"{n} {FILLER}"} for n in range(20))]

    context, hook = Context(), before_model_call(new_manager(recorder, window=1_000, on_insufficient_budget=action))
    if action == "raise":
        with pytest.raises(InsufficientBudget):
            hook(context)
        return
    hook(context)
    assert [item["content"] for item in context.messages[:-1]] == [item["content"] for item in PINNED]
    assert context.messages[-1]["content"].startswith("19 ")
    warning = recorder.last("compact.warning")
    assert (warning["code"], warning["count"]) == ("prompt_reduced", 19)
    assert "exceed the budget" in capsys.readouterr().err


@pytest.mark.parametrize("action", ["reduce", "raise"])
@pytest.mark.parametrize("way", [way for way in WAYS if way != "pydantic-ai, one id"])
async def test_each_framework_reduces_or_raises_below_the_floor(
    way: str, action: str, provider: StrictProvider, recorder: Recorder
) -> None:
    """A request that cannot fit is sent and reported, or the error reaches the caller of the framework."""
    manager = new_manager(recorder, window=300, on_insufficient_budget=action)
    ask = WAYS[way](manager, provider)
    requests = (ask(f"{question(secret, steps=2)} {FILLER * 4}") for secret in USERS)
    answers = await asyncio.gather(*requests, return_exceptions=True)
    assert provider.mixed == []
    assert provider.rejections == []
    if action == "raise":
        assert [type(answer) for answer in answers] == [InsufficientBudget, InsufficientBudget]
        assert provider.requests == []
        return
    assert all(str(answer).startswith("Done.") for answer in answers), answers
    assert set().union(*(request.secrets for request in provider.requests)) == set(USERS)
    assert {event["session_id"] for event in recorder.of("compact.over_budget")} == {
        event["session_id"] for event in recorder.of("compact.check")
    }


@pytest.mark.parametrize("has_shared_id", [False, True])
def test_users_of_the_hooks_stay_apart(has_shared_id: bool, recorder: Recorder) -> None:
    """Two loops take turns with the same words, in sessions of their own and by mistake in the same one."""
    manager = new_manager(recorder)
    hook = before_model_call(manager)
    histories: dict[str, list[Any]] = {secret: [] for secret in USERS}
    for step in range(30):
        for secret, history in histories.items():
            text = f"Hello. My code is {secret}." if step == 0 else f"Question {step}. {FILLER}"
            history.append({"role": "user", "content": text})
            context = SimpleNamespace(session_id="shared" if has_shared_id else secret, messages=list(history))
            hook(context)
            foreign = next(other for other in USERS if other != secret)
            assert foreign not in str(context.messages)
            assert len(context.messages) < len(history) or step < 25
            history.append({"role": "assistant", "content": f"Answer {step}."})
    assert recorder.of("compact.pruned_messages")
