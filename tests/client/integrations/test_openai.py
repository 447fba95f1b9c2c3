"""OpenAI chat completions: the real client over HTTP."""

from __future__ import annotations

import json
from typing import Any

import openai
from compact import CompactManager
from compact.integrations.openai import ChatCompletions
from receiver import Answer, Receiver

LONG = "lorem ipsum dolor " * 60
RESPONSE = {
    "id": "1", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "done"}}],
    "usage": {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101},
}  # fmt: skip


def test_long_histories_are_compacted(manager: CompactManager, events: list[Any]) -> None:
    """The request is in the chat format. The caller's list is unchanged."""
    history: list[dict[str, Any]] = [{"role": "system", "content": "Read."}]
    for n in range(10):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        history += [
            {"role": "user", "content": f"file {n}"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": LONG},
        ]
    before = json.dumps(history)
    with Receiver(Answer(body=RESPONSE)) as receiver, openai.OpenAI(api_key="k", base_url=receiver.url) as client:
        chat = ChatCompletions(client, manager, session_id="s")
        assert chat.create(model="m", messages=history).choices[0].message.content == "done"
        sent = json.loads(receiver.requests[0].raw)["messages"]
    assert json.dumps(history) == before
    assert sent[0] == history[0]
    assert "<COMPACT-SUMMARY" in sent[1]["content"]
    assert any(event["event"] == "compact.pruned_messages" for event in events)
