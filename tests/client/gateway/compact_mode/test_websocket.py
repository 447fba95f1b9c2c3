"""The websocket of the Responses API in compact mode, and requests that continue a response."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from client.gateway.compact_mode.conftest import Start, events_of, kind_of
from client.gateway.compact_mode.test_requests import LONG
from compact.gateway.settings import RECORDER
from gateways import Gateway
from providers.client_loops import SCHEMA, result_text
from providers.server import StrictProvider
from providers.socket_server import SocketServer
from wait import wait_until
from websockets.sync.client import connect

TOOL = {"type": "function", "name": "read", "parameters": SCHEMA, "strict": True}


@pytest.fixture
def socket_url(provider: StrictProvider) -> Iterator[str]:
    """The address of the provider for websockets."""
    with SocketServer(provider) as server:
        yield server.url
        assert server.extensions
        assert not any(server.extensions), "a message that depends on those before it cannot be replaced"


class Agent:
    """Sends only what is new, like Codex."""

    def __init__(self, gateway: Gateway) -> None:
        self.socket = connect(f"ws://127.0.0.1:{gateway.port}/openai/v1/responses", max_size=None)
        self.previous = ""
        self.responses: list[dict[str, Any]] = []

    def send(self, items: list[Any]) -> dict[str, Any]:
        body: dict[str, Any] = {
            "type": "response.create", "model": "gpt-5", "tools": [TOOL], "input": items, "prompt_cache_key": "s1",
        }  # fmt: skip
        if self.previous:
            body["previous_response_id"] = self.previous
        self.socket.send(json.dumps(body))
        while True:
            event = json.loads(self.socket.recv(timeout=60))
            assert event["type"] not in ("error", "response.failed"), event
            if event["type"] == "response.completed":
                self.previous = event["response"]["id"]
                self.responses.append(event["response"])
                response: dict[str, Any] = event["response"]
                return response

    def say(self, text: str) -> None:
        items: list[Any] = [{"role": "user", "content": text}]
        while items:
            response = self.send(items)
            items = [
                {
                    "type": "function_call_output",
                    "call_id": item["call_id"],
                    "output": result_text(item["arguments"], "lorem ipsum dolor " * 40),
                }
                for item in response["output"]
                if item["type"] == "function_call"
            ]


@pytest.mark.req("A-GW-4")
@pytest.mark.parametrize("has_reasoning", [False, True])
def test_each_message_of_a_growing_session_is_accepted(start: Start, provider, socket_url, ariadne, has_reasoning):
    """Only new items are sent by the agent. The provider gets a whole compacted prompt when they are too many."""
    provider.has_reasoning = has_reasoning
    gateway = start(addresses={"openai": socket_url}, recorder=RECORDER, window=6_000)
    agent = Agent(gateway)
    agent.say("work 30")
    agent.say("Thanks.")
    agent.socket.close()
    assert provider.rejections == []
    metrics = gateway.metrics()
    assert metrics["compactions_total"] >= 1
    first = next(index for index, request in enumerate(provider.requests) if len(request.messages) > 3)
    assert all("previous_response_id" in request.body for request in provider.requests[1:first])
    assert "previous_response_id" not in provider.requests[first].body

    def requests() -> list[dict[str, Any]]:
        return [event for event in events_of(ariadne) if kind_of(event) == "compact.request"]

    assert wait_until(lambda: len(requests()) >= len(provider.requests), timeout_s=30)
    assert {event["session_id"] for event in requests()} == {"s1"}
    assert not [event for event in events_of(ariadne) if kind_of(event) == "compact.foreign_compaction"]


@pytest.mark.req("A-GW-4")
def test_an_overflow_on_the_websocket_is_not_seen(start, provider, socket_url):
    """The failed events are dropped, and the message is sent again."""
    provider.window_tokens = 5_000
    provider.overflow_report = "response.failed"
    gateway = start(addresses={"openai": socket_url}, window=100_000)
    Agent(gateway).say("work 30")
    assert provider.rejections == []
    assert 1 <= len(provider.overflows) <= 3


def test_other_messages_pairs_of_messages_and_pings_pass(start, provider, socket_url):
    """Frames keep their order while a request waits."""
    gateway = start(addresses={"openai": socket_url})
    agent = Agent(gateway)
    assert agent.socket.ping().wait(20)
    agent.say("Hello.")
    body = {"type": "response.create", "model": "gpt-5", "input": [{"role": "user", "content": LONG}]}
    agent.socket.send(json.dumps(body))
    agent.socket.send(json.dumps(body))
    assert agent.socket.ping().wait(20)
    done = 0
    while done < 2:
        done += json.loads(agent.socket.recv(timeout=30))["type"] == "response.completed"
    agent.socket.close()
    assert len(provider.requests) == 3


@pytest.mark.req("A-GW-4")
def test_a_conversation_that_the_server_keeps_is_compacted(start: Start, provider: StrictProvider):
    """Over HTTP too, if the gateway has seen all of it."""
    gateway = start(window=6_000)
    with openai.OpenAI(api_key="k", base_url=f"{gateway.url}/openai/v1", max_retries=0) as client:
        previous: Any = openai.NOT_GIVEN
        for number in range(30):
            response = client.responses.create(
                model="gpt-5", input=f"question {number}: {LONG}", previous_response_id=previous
            )
            previous = response.id
    assert provider.rejections == []
    assert gateway.metrics()["compactions_total"] >= 1
