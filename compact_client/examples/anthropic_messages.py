"""Anthropic messages: the client's own `create`, with compaction. Runs offline with a mock HTTP transport."""

from typing import Any

import anthropic
import httpx2
from compact import CompactConfig, CompactManager, CompactPolicy, ConsoleExporter
from compact.integrations.anthropic import AnthropicMessages


def respond(request: httpx2.Request) -> httpx2.Response:
    text = [{"type": "text", "text": "Noted."}]
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": text}
    usage = {"input_tokens": 0, "output_tokens": 3}
    return httpx2.Response(200, json={**body, "stop_reason": "end_turn", "stop_sequence": None, "usage": usage})


def main() -> None:
    policy = CompactPolicy(keep_recent_turns=2, keep_tool_io_pairs=1)
    manager = CompactManager(CompactConfig("claude-opus-4-6", 6_000, policy=policy, exporter=ConsoleExporter()))
    client = anthropic.Anthropic(api_key="offline", http_client=httpx2.Client(transport=httpx2.MockTransport(respond)))
    messages = AnthropicMessages(client, manager, session_id="anthropic")
    history: list[dict[str, Any]] = []
    for number in range(10):
        text = f"Chapter {number}. " + "The travelers followed the road along the river. " * 60
        history.append({"role": "user", "content": text})
        reply = messages.create(
            model="claude-opus-4-6", max_tokens=100, system="You summarize chapters.", messages=history
        )
        history.append({"role": "assistant", "content": reply.content[0].text})
    print(f"{len(history)} messages in the history, last request {manager.remember('anthropic').tokens:,} tokens")
    client.close()


if __name__ == "__main__":
    main()
