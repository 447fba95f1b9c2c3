"""Requests in compact mode: which are compacted, what is sent, and what stays as the agent sent it."""

from __future__ import annotations

import gzip
import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import openai
import pytest
from client.gateway.compact_mode.conftest import Start, wait_for_event
from compact.gateway.frames import Kind
from gateways import Gateway
from providers.client_loops import AnthropicLoop, ChatLoop, Loop, ResponsesLoop
from providers.server import StrictProvider
from wait import wait_until

LONG = "lorem ipsum dolor " * 60
CLAUDE = {"x-claude-code-session-id": "s1", "user-agent": "claude-cli/2.1.327"}


@contextmanager
def loop_of(name: str, gateway: Gateway, way: str) -> Iterator[Loop]:
    """Yield a tool loop with the provider's own client behind the gateway."""
    options: dict[str, Any] = {"api_key": "k", "max_retries": 0}
    if name == "anthropic":
        with anthropic.Anthropic(base_url=f"{gateway.url}/anthropic", default_headers=CLAUDE, **options) as client:
            yield AnthropicLoop(client.messages, way=way)
        return
    with openai.OpenAI(base_url=f"{gateway.url}/openai/v1", **options) as sdk:
        extra = {"prompt_cache_key": "s1"}
        if name == "chat":
            yield ChatLoop(sdk.chat.completions, way=way, extra=extra)
        else:
            yield ResponsesLoop(sdk.responses, way=way, extra=extra)


def post(gateway: Gateway, body: bytes, headers: dict[str, str] | None = None, path: str = "/anthropic/v1/messages"):
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    connection.request("POST", path, body, {"content-type": "application/json", "x-api-key": "k", **(headers or {})})
    answer = connection.getresponse()
    return answer.status, answer.read()


def conversation(turns: int, text: str = LONG, *, who: str = "") -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for number in range(turns):
        messages.append({"role": "user", "content": f"{who} question {number}: {text}"})
        messages.append({"role": "assistant", "content": f"{who} answer {number}: {text}"})
    return [*messages, {"role": "user", "content": f"{who} and now?"}]


@pytest.mark.req("A-GW-4")
@pytest.mark.parametrize("way", ["create", "create_stream"])
@pytest.mark.parametrize("api", ["anthropic", "responses", "chat"])
async def test_a_growing_session_is_accepted_call_by_call(start: Start, provider: StrictProvider, api: str, way: str):
    """The prompts exceed the window several times. The provider gets only prompts that it accepts."""
    provider.window_tokens = 6_000
    provider.has_reasoning = True
    gateway = start(window=6_000)
    with loop_of(api, gateway, way) as loop:
        for turn in range(2):
            await loop.say(f"work 25. This is turn {turn}.")
    assert provider.rejections == []
    assert provider.overflows == []
    metrics = gateway.metrics()
    assert metrics["compactions_total"] >= 2
    assert metrics["compacted_requests_total"] > metrics["compactions_total"]
    assert len(loop.history) > max(len(request.messages) for request in provider.requests)


def test_a_request_that_fits_is_forwarded_byte_by_byte(start, provider):
    """White space, order of keys, unknown fields and content coding stay."""
    gateway = start()
    body = b'{ "max_tokens":10,\n"model" : "claude-opus-4-6", "messages":[ {"content":"hi \\u00e9","role":"user"}]}'
    assert post(gateway, body)[0] == 200
    assert "compactions_total" not in gateway.metrics()
    assert wait_until(lambda: gateway.frames()[-1:] and gateway.frames()[-1].kind is Kind.ANSWER_END)
    frames = b"".join(frame.payload for frame in gateway.frames() if frame.kind is Kind.REQUEST_BODY)
    assert frames == body


@pytest.mark.parametrize("coding", ["", "gzip"])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_compacted_body_has_its_own_length_and_no_coding(start, provider, coding, is_chunked):
    """Only the messages change. All other fields keep their bytes."""
    gateway = start()
    big = json.dumps({"model": "claude-opus-4-6", "max_tokens": 10, "messages": conversation(20)}).encode()
    big = big[:-1] + b', "metadata" : {"user_id":  "u"}}'
    data = gzip.compress(big) if coding else big
    headers = {"content-encoding": coding} if coding else {}
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    body: Any = iter([data[:1000], data[1000:]]) if is_chunked else data
    connection.request("POST", "/anthropic/v1/messages", body, {**headers, "x-api-key": "k"}, encode_chunked=is_chunked)
    answer = connection.getresponse()
    assert (answer.status, answer.read()[:1]) == (200, b"{")
    request = provider.requests[-1]
    assert "content-encoding" not in request.headers
    assert "transfer-encoding" not in request.headers
    assert len(request.messages) < 41
    assert request.body["metadata"] == {"user_id": "u"}
    assert list(request.body) == ["model", "max_tokens", "messages", "metadata"]
    # The connection goes on after it.
    connection.request("POST", "/anthropic/v1/messages", big, {"x-api-key": "k"})
    assert connection.getresponse().status == 200


@pytest.mark.parametrize(
    "path", ["/anthropic/v1/messages/count_tokens", "/anthropic/v1/files", "/openai/v1/responses/input_tokens"]
)
def test_other_requests_are_forwarded_untouched(start, provider, path):
    """Counts and other paths are no part of a conversation."""
    gateway = start()
    key = "input" if "responses" in path else "messages"
    body = json.dumps({"model": "claude-opus-4-6", key: conversation(30)}).encode()
    post(gateway, body, CLAUDE, path)
    assert provider.requests[-1].body == json.loads(body)


@pytest.mark.parametrize(
    ("headers", "fields"),
    [
        ({"x-claude-code-compaction": "manual"}, {}),
        ({"x-claude-code-request-class": "auxiliary"}, {}),
        ({}, {"output_config": {"format": {"type": "json_schema", "schema": {"properties": {"title": {}}}}}}),
        ({}, {"max_tokens": 1}),
        ({}, {"last": "Your task is to create a detailed summary of the conversation so far."}),
        ({"content-md5": "abc"}, {}),
    ],
)
def test_requests_beside_the_conversation_are_forwarded_untouched(start, provider, headers, fields):
    """Titles, probes, auxiliary requests, signed bodies, and the request for the agent's own summary."""
    gateway = start()
    messages = conversation(30)
    last = fields.pop("last", None)
    if last:
        messages[-1]["content"] = last
    body = {"model": "claude-opus-4-6", "max_tokens": 10, "messages": messages, **fields}
    post(gateway, json.dumps(body).encode(), {**CLAUDE, **headers})
    assert provider.requests[-1].body == body


def test_only_the_listed_agents_are_compacted(start, provider, tmp_path):
    """`gateway.compact` of compact.yaml names agents."""
    (tmp_path / "compact.yaml").write_text("gateway:\n  compact: [claude]\n")
    gateway = start(compact_scope="listed")
    body = json.dumps({"model": "claude-opus-4-6", "max_tokens": 10, "messages": conversation(30)}).encode()
    post(gateway, body)
    assert len(provider.requests[-1].messages) == 61
    post(gateway, body, CLAUDE)
    assert len(provider.requests[-1].messages) < 61


def test_protected_messages_stay_and_their_flag_is_not_sent(start, provider):
    """A message can be protected on the wire, and the provider never sees the flag."""
    gateway = start()
    messages = conversation(30)
    messages[4] = {"role": "user", "content": "Never delete the table of orders.", "meta": {"protected": True}}
    post(gateway, json.dumps({"model": "claude-opus-4-6", "max_tokens": 10, "messages": messages}).encode())
    sent = provider.requests[-1]
    assert {"role": "user", "content": "Never delete the table of orders."} in sent.messages
    assert "meta" not in sent.text
    assert len(sent.messages) < 61


def test_two_users_never_share_a_session_or_a_plan(start, provider, ariadne):
    """The same session id and the same first messages, with two credentials: neither sees the other's words."""
    gateway = start(recorder=())
    for turn in range(2, 30, 3):
        for user in ("alice", "bob"):
            messages = conversation(turn, who=f"SECRET-{user}")
            messages[0]["content"] = "The same beginning."
            body = json.dumps({"model": "claude-opus-4-6", "max_tokens": 10, "messages": messages}).encode()
            assert post(gateway, body, {**CLAUDE, "x-api-key": user})[0] == 200
    assert provider.mixed == []
    assert gateway.metrics()["compactions_total"] >= 2


def test_credentials_do_not_reach_the_compactor(start, provider, ariadne, tmp_path):
    """Not its events, files or log."""
    secrets = ["sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789", "Bearer tok-0123456789abcdef0123456789"]
    gateway = start()
    body = json.dumps({"model": "claude-opus-4-6", "max_tokens": 10, "messages": conversation(30)}).encode()
    post(gateway, body, {**CLAUDE, "x-api-key": secrets[0], "authorization": secrets[1]})
    assert provider.requests[-1].headers["authorization"] == secrets[1]
    wait_for_event(ariadne, "compact.pruned_messages")
    sent = b"".join(request.raw for request in ariadne.requests)
    for secret in (*secrets, secrets[1].removeprefix("Bearer ")):
        assert secret.encode() not in sent
        assert secret.encode() not in gateway.files()
