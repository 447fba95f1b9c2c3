"""Anthropic messages: the real client over HTTP."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import pytest
from compact import CallbackExporter, CompactConfig, CompactManager
from compact.integrations.anthropic import AnthropicMessages
from receiver import Answer, Receiver

LONG = "lorem ipsum dolor " * 60
RESPONSE = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_reason": "end_turn",
    "stop_sequence": None, "content": [{"type": "text", "text": "done"}],
    "usage": {"input_tokens": 10, "output_tokens": 1},
}  # fmt: skip


def tool_history() -> list[dict[str, Any]]:
    history: list[dict[str, Any]] = [{"role": "user", "content": "Read ten files."}]
    for n in range(10):
        use = {"type": "tool_use", "id": f"c{n}", "name": "read", "input": {"path": f"{n}.py"}}
        result = {"type": "tool_result", "tool_use_id": f"c{n}", "content": LONG}
        history += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    return history


@pytest.mark.parametrize("is_async", [False, True])
async def test_long_histories_are_compacted(is_async: bool, manager: CompactManager, events: list[Any]) -> None:
    """Every tool_use has its tool_result in the next message, and the first message is from the user."""
    history = tool_history()
    arguments: dict[str, Any] = {"model": "claude", "max_tokens": 10, "system": "Read.", "messages": history}
    with Receiver(Answer(body=RESPONSE)) as receiver:
        if is_async:
            async with anthropic.AsyncAnthropic(api_key="k", base_url=receiver.url) as aclient:
                answer = await AnthropicMessages(aclient, manager, session_id="s").acreate(**arguments)
        else:
            with anthropic.Anthropic(api_key="k", base_url=receiver.url) as client:
                answer = AnthropicMessages(client, manager, session_id="s").create(**arguments)
        sent = json.loads(receiver.requests[0].raw)["messages"]
    assert answer.content[0].text == "done"
    assert any(event["event"] == "compact.pruned_messages" for event in events)
    assert len(sent) < len(history) == 21
    assert sent[0]["role"] == "user"
    for index, message in enumerate(sent):
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_use":
                assert sent[index + 1]["content"][0]["tool_use_id"] == block["id"]
            if block["type"] == "tool_result":
                assert sent[index - 1]["content"][-1]["id"] == block["tool_use_id"]


@pytest.mark.req("R-OVER-1")
@pytest.mark.parametrize("is_async", [False, True])
async def test_an_overflow_is_recovered(is_async: bool, events: list[Any]) -> None:
    """Anthropic's error message is recognized, and the call is repeated with fewer messages."""
    config = CompactConfig("claude", 100_000, exporter=CallbackExporter(events.append))
    manager = CompactManager(config)
    text = "prompt is too long: 210000 tokens > 200000 maximum"
    rejection = {"type": "error", "error": {"type": "invalid_request_error", "message": text}}
    arguments: dict[str, Any] = {"model": "claude", "max_tokens": 10, "messages": tool_history()}
    with Receiver(Answer(400, body=rejection), Answer(body=RESPONSE)) as receiver:
        if is_async:
            async with anthropic.AsyncAnthropic(api_key="k", base_url=receiver.url) as aclient:
                answer = await AnthropicMessages(aclient, manager, session_id="s").acreate(**arguments)
        else:
            with anthropic.Anthropic(api_key="k", base_url=receiver.url) as client:
                answer = AnthropicMessages(client, manager, session_id="s").create(**arguments)
        first, second = (len(json.loads(request.raw)["messages"]) for request in receiver.requests)
    assert answer.content[0].text == "done"
    assert second < first == 21
    assert any(event["event"] == "compact.overflow_recovered" for event in events)
