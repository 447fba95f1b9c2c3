"""Session logs of other agents, read as conversations and turned into events for the server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compact import CompactConfig, CompactManager
from compact.importers import UnreadableLog, ingest_events, read_conversation

LOGS = Path(__file__).resolve().parents[2] / "fixtures" / "logs"


def test_a_claude_code_log_is_read_as_an_anthropic_conversation() -> None:
    """Blocks of one message are joined, sub-agents nest, and tool calls and compactions become spans."""
    conversation = read_conversation((LOGS / "claude_code.jsonl").read_text())
    assert (conversation.source, conversation.session_id, conversation.model) == (
        "claude-code",
        "5a8c2f10-cc",
        "claude-opus-4-6",
    )
    assert [item["role"] for item in conversation.items] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
        "user",
        "assistant",
    ]
    assert [block["type"] for block in conversation.items[1]["content"]] == ["text", "tool_use"]
    spans = [span for span in conversation.spans if not span.thread and span.kind != "agent"]
    assert [span.kind for span in spans] == [
        "user", "generation", "tool", "generation", "tool", "compaction", "generation",
    ]  # fmt: skip
    assert [(span.kind, span.thread) for span in conversation.spans if span.thread] == [("user", "s1")]
    tool = spans[4]
    assert (tool.name, tool.started_at, tool.ended_at, tool.is_error) == (
        "Bash", "2026-11-16T04:00:06.000Z", "2026-11-16T04:00:09.000Z", True,
    )  # fmt: skip
    assert spans[3].usage == {"input_tokens": 1500, "cached_tokens": 1200, "output_tokens": 15}
    assert spans[5].data == {"trigger": "auto", "tokens_before": 155000}
    assert "one test fails" in spans[5].payload["summary"]


def test_a_codex_log_is_read_as_a_responses_conversation() -> None:
    """Items stay unchanged. Usage and context window come from the token counts in the log."""
    conversation = read_conversation((LOGS / "codex.jsonl").read_text())
    assert (conversation.source, conversation.session_id, conversation.model) == ("codex", "0199-codex", "gpt-5-codex")
    assert conversation.window_tokens == 272_000
    assert [item["type"] for item in conversation.items] == [
        "message", "reasoning", "function_call", "function_call_output", "message",
    ]  # fmt: skip
    assert [span.kind for span in conversation.spans] == ["user", "generation", "tool", "generation", "compaction"]
    assert [span.usage["input_tokens"] for span in conversation.spans if span.kind == "generation"] == [2000, 2500]


@pytest.mark.parametrize("name", ["claude_code", "codex"])
def test_an_imported_conversation_can_be_compacted(name: str) -> None:
    """A manager accepts the messages in the format of the log."""
    conversation = read_conversation((LOGS / f"{name}.jsonl").read_text())
    manager = CompactManager(CompactConfig(model="gpt-5", max_context_tokens=100_000))
    assert manager.preflight("s", conversation.items, format=conversation.format) == conversation.items


@pytest.mark.parametrize("name", ["claude_code", "codex"])
def test_importing_a_log_again_gives_the_same_events(name: str) -> None:
    """The ids of a shorter version of the log are also in the longer one."""
    text = (LOGS / f"{name}.jsonl").read_text()
    once = list(ingest_events(read_conversation(text), session_id="s"))
    assert list(ingest_events(read_conversation(text), session_id="s")) == once
    shorter = "".join(text.splitlines(keepends=True)[:-2])
    ids = {event.get("span_id") for event in once}
    assert {event.get("span_id") for event in ingest_events(read_conversation(shorter), session_id="s")} <= ids
    kinds = [event.get("kind") for event in once]
    assert {"agent", "generation", "tool", "compact.token_estimate", "compact.trigger_decision"} <= set(kinds)
    assert json.dumps(once)


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ('[{"role": "user", "content": "a"}]', ["user"]),
        ('{"messages": [{"role": "user", "content": "a"}], "tools": [{"name": "t"}], "model": "m"}', ["user"]),
        ('{"role": "user", "content": "a"}\n{"role": "assistant", "content": "b"}\n', ["user", "assistant"]),
        ('{"id": "m1", "role": "user", "content": "a"}\n{"id": "m', ["user"]),
    ],
)  # fmt: skip
def test_a_conversation_is_read_from_a_list_an_object_or_lines(text: str, roles: list[str]) -> None:
    """An incomplete last line is skipped."""
    assert [item["role"] for item in read_conversation(text).items] == roles


@pytest.mark.parametrize("text", ["", "{}", "[]", "hello", '{"a": 1}\n{"b": 2}\n', '{"role": "user"}\nnot json\n{}\n'])
def test_text_without_a_conversation_is_rejected(text: str) -> None:
    """The error says what was expected or which line is invalid."""
    with pytest.raises(UnreadableLog, match=r"No conversation found|Line 2 is not valid JSON"):
        read_conversation(text)
