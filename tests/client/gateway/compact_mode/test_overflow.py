"""A provider's context overflow: the request is sent again, shorter, before the agent sees the error."""

from __future__ import annotations

import json

import pytest
from client.gateway.compact_mode.conftest import Start, wait_for_event
from client.gateway.compact_mode.test_requests import CLAUDE, conversation, loop_of, post
from compact.gateway.frames import Kind
from providers.rejection import openai_rejection
from providers.server import StrictProvider
from wait import wait_until

ROOMY = 100_000


@pytest.mark.req("A-GW-4")
@pytest.mark.parametrize(
    ("api", "way", "report"),
    [
        ("anthropic", "create", "http"),
        ("anthropic", "create_stream", "http"),
        ("anthropic", "create_stream", "error"),
        ("responses", "create", "http"),
        ("responses", "create_stream", "response.failed"),
        ("responses", "create_stream", "error"),
        ("chat", "create", "http"),
        ("chat", "create_stream", "http"),
        ("chat", "create_stream", "error"),
    ],
)
async def test_the_agent_never_sees_an_overflow(start: Start, provider: StrictProvider, api, way, report):
    """The provider's window is smaller than the settings say, and the gateway learns it."""
    provider.window_tokens = 5_000
    provider.overflow_report = report
    gateway = start(window=ROOMY)
    with loop_of(api, gateway, way) as loop:
        await loop.say("work 40")
    assert provider.rejections == []
    assert 1 <= len(provider.overflows) <= 3, "the window was learned"
    assert gateway.metrics()["compactions_total"] >= 1


def test_each_attempt_is_recorded(start, provider, ariadne):
    """The recorder gets the rejected request and the one that was accepted, and the compaction is an event."""
    provider.window_tokens = 3_000
    gateway = start(window=ROOMY)
    body = json.dumps({"model": "claude-opus-4-6", "max_tokens": 10, "messages": conversation(20)}).encode()
    status, text = post(gateway, body, CLAUDE)
    assert (status, json.loads(text)["type"]) == (200, "message")

    def heads():
        return [frame.json() for frame in gateway.frames() if frame.kind is Kind.OPEN]

    assert wait_until(lambda: len(heads()) == 2)
    assert [head["rewrite"] for head in heads()] == ["none", "recovered"]
    assert {head["session"] for head in heads()} == {"s1"}
    (event,) = wait_for_event(ariadne, "compact.overflow_recovered")
    assert event["session_id"] == "s1"
    assert event["properties"]["limit_tokens"] == 3_000


def test_another_error_is_given_to_the_agent_as_it_came(start, provider):
    """Only an overflow is an overflow, and one that cannot be shortened is the agent's. A line says so."""
    gateway = start(window=ROOMY)
    body = json.dumps({"model": "claude-opus-4-6", "max_tokens": 10, "messages": conversation(1)}).encode()
    provider.failures.append(openai_rejection("temperature must be <= 2", status=400))
    assert post(gateway, body)[0] == 400
    provider.window_tokens = 3
    status, text = post(gateway, body)
    assert status == 400
    assert b"prompt is too long" in text
    assert "A prompt that was too long is not sent again" in (gateway.directory / "log").read_text()
