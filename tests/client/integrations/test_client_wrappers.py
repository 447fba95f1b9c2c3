"""The client wrappers against a strict provider: every way to send a request, with the client's own types."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anthropic
import openai
import pytest
from compact import CallbackExporter, CompactConfig, CompactManager, CompactPolicy, InsufficientBudget
from compact.integrations.anthropic import AnthropicMessages
from compact.integrations.openai import ChatCompletions, Responses
from providers.client_loops import Answer, AnthropicLoop, ChatLoop, Loop, ResponsesLoop
from providers.server import StrictProvider

APIS: dict[str, tuple[Any, type[Loop]]] = {
    "chat": (ChatCompletions, ChatLoop),
    "responses": (Responses, ResponsesLoop),
    "anthropic": (AnthropicMessages, AnthropicLoop),
}

LONG = "lorem ipsum dolor " * 240


@pytest.fixture
def provider() -> Iterator[StrictProvider]:
    with StrictProvider() as running:
        yield running


@pytest.fixture
def events() -> list[Any]:
    return []


@pytest.fixture
def manager(events: list[Any]) -> CompactManager:
    return CompactManager(CompactConfig("gpt-5", 8_000, exporter=CallbackExporter(events.append)))


class Clients(dict[tuple[str, bool], Any]):
    """The clients by API and by whether they are async. Each is created on first use, because that is slow."""

    def __init__(self, provider: StrictProvider) -> None:
        super().__init__()
        self._provider = provider

    def __missing__(self, key: tuple[str, bool]) -> Any:
        api, is_async = key
        package: Any = anthropic if api == "anthropic" else openai
        name = "Anthropic" if api == "anthropic" else "OpenAI"
        http_client = package.DefaultAsyncHttpxClient if is_async else package.DefaultHttpxClient
        self[key] = getattr(package, f"Async{name}" if is_async else name)(
            api_key="k",
            base_url=self._provider.url if api == "anthropic" else self._provider.openai_url,
            max_retries=0,
            # Loading certificates is slow, and the provider uses no TLS.
            http_client=http_client(verify=False),
        )
        return self[key]


@pytest.fixture
async def clients(provider: StrictProvider) -> AsyncIterator[Clients]:
    clients = Clients(provider)
    yield clients
    for (_, is_async), client in clients.items():
        if is_async:
            await client.close()
        else:
            client.close()


def new_loop(api: str, client: Any, manager: CompactManager, session_id: str, **options: Any) -> Loop:
    wrapper, loop = APIS[api]
    return loop(wrapper(client, manager, session_id=session_id), **options)


@pytest.mark.parametrize(
    ("way", "is_async"),
    [
        *[(way, is_async) for way in ("create", "create_stream", "stream") for is_async in (False, True)],
        *[("parse", True), ("raw", False), ("streaming", True)],
    ],
)
@pytest.mark.parametrize("api", APIS)
async def test_compacted_sessions_are_valid_in_every_way(
    api: str,
    way: str,
    is_async: bool,
    provider: StrictProvider,
    clients: Clients,
    manager: CompactManager,
    events: list[Any],
) -> None:
    """A session with parallel tools is compacted, and every request is valid."""
    provider.has_reasoning = True
    loop = new_loop(api, clients[api, is_async], manager, "s", way=way, filler=LONG)
    assert "SECRET-a" in await loop.say("work 9. SECRET-a")
    await loop.say("Thank you. work 6 by 3.")
    assert provider.rejections == []
    assert any(event["event"] == "compact.pruned_messages" for event in events)


@pytest.mark.parametrize("api", APIS)
async def test_long_sessions_are_valid_and_stay_small(
    api: str, provider: StrictProvider, clients: Clients, manager: CompactManager
) -> None:
    """A session of 42 calls in 2 turns stays below the window. Thinking and reasoning stay valid."""
    provider.has_reasoning = True
    loop = new_loop(api, clients[api, True], manager, "s")
    if api == "anthropic":
        loop.extra["thinking"] = {"type": "adaptive"}
    await loop.say("work 36")
    await loop.say("work 8 by 2")
    assert len(provider.requests) == 42
    assert provider.rejections == []
    assert max(len(request.text) for request in provider.requests) < 8_000 * 6


@pytest.mark.req("R-OVER-1")
@pytest.mark.parametrize(
    ("way", "report"),
    [
        ("create", "http"),
        ("create_stream", "http"),
        ("create_stream", "response.failed"),
        ("create_stream", "error"),
        ("stream", "response.failed"),
        ("raw", "http"),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("api", APIS)
async def test_overflows_are_recovered_in_every_way(
    api: str,
    is_async: bool,
    way: str,
    report: Any,
    provider: StrictProvider,
    clients: Clients,
    events: list[Any],
) -> None:
    """The provider's window is smaller than the configured one, and it reports the overflow in its own way."""
    manager = CompactManager(CompactConfig("gpt-5", 100_000, exporter=CallbackExporter(events.append)))
    provider.window_tokens, provider.overflow_report = 3_500, report
    loop = new_loop(api, clients[api, is_async], manager, "s", way=way, filler=LONG)
    assert "Done." in await loop.say("work 6")
    assert provider.overflows
    assert provider.rejections == []
    assert any(event["event"] == "compact.overflow_recovered" for event in events)


@pytest.mark.parametrize("way", ["create", "create_stream", "stream", "raw"])
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("api", APIS)
async def test_usage_is_learned(
    api: str,
    is_async: bool,
    way: str,
    clients: Clients,
    manager: CompactManager,
    events: list[Any],
) -> None:
    """The token counts of a response, streamed or not, correct the next estimate."""
    loop = new_loop(api, clients[api, is_async], manager, "s", way=way)
    await loop.say("work 1")
    sources = [event["properties"]["source"] for event in events if event["event"] == "compact.token_estimate"]
    assert sources == ["estimate", "provider"]


@pytest.mark.parametrize("api", APIS)
async def test_two_users_in_threads_and_tasks_stay_apart(
    api: str, provider: StrictProvider, clients: Clients, manager: CompactManager
) -> None:
    """Four users say the same at the same time. No request contains two secrets."""
    answers: dict[str, str] = {}

    async def converse(user: str, is_async: bool) -> None:
        loop = new_loop(api, clients[api, is_async], manager, user, filler=LONG)
        await loop.say(f"My password is SECRET-{user}.")
        answers[user] = await loop.say("work 8 by 2") + await loop.say("What is my password?")

    threads = [threading.Thread(target=lambda u=user: asyncio.run(converse(u, False))) for user in ("a", "b")]
    for thread in threads:
        thread.start()
    await asyncio.gather(*(converse(user, True) for user in ("c", "d")))
    await asyncio.to_thread(lambda: [thread.join() for thread in threads])
    assert provider.rejections == []
    assert provider.mixed == []
    for user, text in answers.items():
        assert f"SECRET-{user}" in text


@pytest.mark.req("S-PROT-1")
@pytest.mark.parametrize("way", ["meta", "protected"])
@pytest.mark.parametrize("api", APIS)
async def test_protection_works_and_never_reaches_the_provider(
    api: str, way: str, provider: StrictProvider, clients: Clients, manager: CompactManager
) -> None:
    """A protected message is in every request, and neither the flag nor the indexes are."""
    loop = new_loop(api, clients[api, False], manager, "s", filler=LONG)
    loop.history.append({"role": "user", "content": "The deadline is 17 May. Never forget this sentence."})
    if way == "meta":
        loop.history[0]["meta"] = {"protected": True}
    else:
        loop.extra["protected"] = [0]
    await loop.say("work 10")
    assert provider.rejections == []
    assert all("17 May. Never forget this sentence." in request.text for request in provider.requests)


@pytest.mark.parametrize("api", APIS)
async def test_preflight_output_contains_no_library_keys(api: str, manager: CompactManager) -> None:
    """A host may send the returned list itself."""
    item = {"role": "user", "content": "Remember this.", "meta": {"protected": True}}
    for count in (0, 60):
        filler = [{"role": "user", "content": "word " * 200}] * count
        sent = manager.preflight(f"{api}{count}", [item, *filler], format=api)
        assert {"role": "user", "content": "Remember this."} in sent
        assert len(sent) < 60
    assert item["meta"] == {"protected": True}


def test_return_types_are_those_of_the_client(clients: Clients, manager: CompactManager) -> None:
    """Code that checks types, or uses methods of the client's classes, keeps working."""
    messages: Any = [{"role": "user", "content": "hello"}]
    chat = ChatCompletions(clients["chat", False], manager, session_id="chat")
    assert isinstance(chat.create(model="m", messages=messages), openai.types.chat.ChatCompletion)
    with chat.create(model="m", messages=messages, stream=True) as stream:
        assert isinstance(stream, openai.Stream)
    assert chat.parse(model="m", messages=messages, response_format=Answer).choices[0].message.parsed == Answer(
        text="Done."
    )
    responses = Responses(clients["responses", False], manager, session_id="responses")
    assert isinstance(responses.create(model="m", input="hello"), openai.types.responses.Response)
    assert responses.parse(model="m", input="hello", text_format=Answer).output_parsed == Answer(text="Done.")
    claude = AnthropicMessages(clients["anthropic", False], manager, session_id="claude")
    assert isinstance(claude.create(model="m", max_tokens=9, messages=messages), anthropic.types.Message)
    beta = AnthropicMessages(clients["anthropic", False].beta, manager, session_id="beta")
    assert isinstance(beta.create(model="m", max_tokens=9, messages=messages), anthropic.types.beta.BetaMessage)


async def test_tokens_are_counted_without_compaction(
    provider: StrictProvider, clients: Clients, manager: CompactManager
) -> None:
    """`count_tokens` counts the caller's messages, without the keys of this library."""
    messages: Any = [{"role": "user", "content": "hello " * 9_000, "meta": {"protected": True}}]
    claude = AnthropicMessages(clients["anthropic", False], manager, session_id="s")
    assert claude.count_tokens(model="m", messages=messages).input_tokens > 9_000
    aclaude = AnthropicMessages(clients["anthropic", True], manager, session_id="s")
    assert (await aclaude.count_tokens(model="m", messages=messages)).input_tokens > 9_000
    assert provider.rejections == []


@pytest.mark.req("A-ID-4")
@pytest.mark.parametrize("way", ["previous_response_id", "conversation"])
def test_conversations_that_the_server_keeps_are_sent_unchanged(
    way: str, provider: StrictProvider, clients: Clients, manager: CompactManager, events: list[Any]
) -> None:
    """A tool output whose call only the server knows is not removed. One warning says why nothing is compacted."""
    client = clients["responses", False]
    responses = Responses(client, manager, session_id="s")
    tool: Any = {"type": "function", "name": "read", "parameters": {"properties": {"step": {}}}, "strict": False}
    state = {"conversation": client.conversations.create().id} if way == "conversation" else {}
    response = responses.create(model="m", input="work 3", tools=[tool], **state)
    while response.output[0].type == "function_call":
        call: Any = response.output[0]
        step = call.arguments.partition('step": ')[2][0]
        output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": f"step {step}/3"}
        if way == "previous_response_id":
            state = {"previous_response_id": response.id}
        response = responses.create(model="m", input=[output], tools=[tool], **state)
    assert response.output_text == "Done."
    assert provider.rejections == []
    warnings = [event for event in events if event["event"] == "compact.warning"]
    assert [event["properties"]["code"] for event in warnings] == ["server_managed"]


@pytest.mark.parametrize("api", APIS)
async def test_retries_of_the_client_do_not_confuse_the_session(
    api: str, provider: StrictProvider, manager: CompactManager
) -> None:
    """Rate limits and server errors between the calls are retried by the client itself."""
    from providers.rejection import openai_rejection

    client: Any = (
        anthropic.Anthropic(api_key="k", base_url=provider.url, max_retries=3)
        if api == "anthropic"
        else openai.OpenAI(api_key="k", base_url=provider.openai_url, max_retries=3)
    )
    loop = new_loop(api, client, manager, "s")
    with client:
        for status in (429, 500, 503):
            failure = openai_rejection("Try again.", status=status)
            failure.headers["retry-after-ms"] = "1"
            provider.failures.append(failure)
            assert "Done." in await loop.say("work 5")
    assert provider.rejections == []


async def test_a_stream_can_be_closed_and_the_session_resumed(
    provider: StrictProvider, clients: Clients, manager: CompactManager
) -> None:
    """A caller that stops reading gets no error, and its next request is valid."""
    loop = new_loop("chat", clients["chat", True], manager, "s", way="create_stream", filler=LONG)
    await loop.say("work 4")
    provider.stream_gate.clear()
    stream = await loop.client.create(
        model="m", messages=[*loop.history, {"role": "user", "content": "Tell me more. " * 9}], stream=True
    )
    async for _ in stream:
        break
    await stream.close()
    provider.stream_gate.set()
    assert "Done." in await loop.say("work 10")
    assert provider.rejections == []


class Completions:
    """The `chat.completions` of a client that is not from OpenAI."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    def create(self, **arguments: Any) -> str:
        self.requests.append(arguments)
        return "done"


def test_other_clients_with_the_same_create_work(manager: CompactManager) -> None:
    """Only `create` is needed, and it does not receive `protected`."""

    class Client:
        class chat:
            completions = Completions()

    chat = ChatCompletions(Client(), manager, session_id="s")
    assert chat.create(messages=[{"role": "user", "content": "x", "meta": {"a": 1}}], protected=[0]) == "done"
    assert Client.chat.completions.requests == [{"messages": [{"role": "user", "content": "x"}]}]


@pytest.mark.parametrize("action", ["reduce", "raise"])
@pytest.mark.parametrize("api", APIS)
async def test_wrappers_reduce_or_raise_below_the_floor(
    api: str, action: Any, provider: StrictProvider, clients: Clients, events: list[Any]
) -> None:
    """Both users send a question that cannot fit. Their old messages are never sent."""
    policy = CompactPolicy(on_insufficient_budget=action, hard_cap_buffer=50)
    manager = CompactManager(CompactConfig("gpt-5", 400, policy=policy, exporter=CallbackExporter(events.append)))
    for secret in ("SECRET-a", "SECRET-b"):
        loop = new_loop(api, clients[api, True], manager, f"session-{secret}")
        loop.history = [
            {"role": role, "content": f"old {number}"} for number in range(40) for role in ("user", "assistant")
        ]
        if action == "raise":
            with pytest.raises(InsufficientBudget):
                await loop.say(f"{secret} {LONG}")
            continue
        assert secret in await loop.say(f"{secret} {LONG}")
        assert "old 0" not in provider.requests[-1].text
    assert provider.mixed == []
    assert provider.rejections == []
    assert len(provider.requests) == (0 if action == "raise" else 2)
    assert action == "raise" or any(event["event"] == "compact.over_budget" for event in events)
