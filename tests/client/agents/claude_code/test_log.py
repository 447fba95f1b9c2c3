"""Logs of Claude Code, of both versions."""

from __future__ import annotations

import re
from pathlib import Path

from agent_logs import CLAUDE_CODE, CLAUDE_CODE_SESSION, SHORT_LOGS, read, spans
from compact.importers import read_conversation, read_log
from compact.messages.usage import Usage


def test_claude_code_blocks_of_one_message_are_one_model_call() -> None:
    """Tool results between the blocks do not split the call, and its tokens count once."""
    conversation = read(CLAUDE_CODE_SESSION)
    calls = [span for span in conversation.spans if span.kind == "generation"]
    assert [call.key for call in calls] == [f"generation:msg_0{n}" for n in range(1, 6)]
    assert calls[0].usage == Usage(1200, 90, cached_tokens=800).to_dict()
    content = calls[0].payload["output"][0]["content"]
    assert [block["type"] for block in content] == ["thinking", "text", "tool_use", "tool_use"]
    tools = [span for span in conversation.spans if span.kind == "tool"]
    assert [(span.name, span.is_error) for span in tools][:2] == [("Read", False), ("Bash", True)]
    users = [(key.split(":")[2], name) for key, name in spans(conversation, "user")]
    # Named by the call before it, as on the wire, where messages have no ids.
    assert users == [("", "user"), ("msg_04", "notice"), ("msg_04", "user")]


def test_a_corrupt_line_is_skipped_and_reported_by_number() -> None:
    """Lines end at a newline only: U+2028 inside a text does not split one."""
    conversation, skipped = read_log(CLAUDE_CODE_SESSION)
    assert [(line.line, line.is_incomplete) for line in skipped] == [(20, False)]
    assert "\u2028The ticket is SHOP-4711." in conversation.items[0]["content"]


def test_a_half_written_last_line_is_incomplete(tmp_path: Path) -> None:
    """A complete last line without a newline is read."""
    lines = CLAUDE_CODE_SESSION.read_bytes().split(b"\n")
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"\n".join(lines[:5]) + b"\n" + lines[5][:80])
    assert [(line.line, line.is_incomplete) for line in read_log(path)[1]] == [(6, True)]
    path.write_bytes(b"\n".join(lines[:6]))
    conversation, skipped = read_log(path)
    assert not skipped
    assert len(conversation.items[1]["content"]) == 3


def test_sub_agents_nest_below_their_call() -> None:
    """In files of their own (version 2) and as side chains (version 1)."""
    (agent,) = (span for span in read(CLAUDE_CODE_SESSION).spans if span.kind == "agent")
    assert (agent.key, agent.parent, agent.name) == ("agent:a7c1", "tool:toolu_03", "Explore")
    own = read(CLAUDE_CODE_SESSION.parent / CLAUDE_CODE_SESSION.stem / "subagents" / "agent-a7c1.jsonl")
    assert own.session_id == CLAUDE_CODE_SESSION.stem
    assert {span.parent for span in own.spans if span.kind != "agent"} == {"agent:a7c1"}
    first = read(CLAUDE_CODE / "version_1" / "11111111-2222-4333-8444-555555555555.jsonl")
    (agent,) = (span for span in first.spans if span.kind == "agent")
    assert agent.parent == "tool:toolu_t"
    assert [span.kind for span in first.spans if span.parent == agent.key] == ["user", "generation", "tool"]


def test_a_claude_code_log_is_read_as_an_anthropic_conversation() -> None:
    """Blocks of one message are joined, sub-agents nest, and tool calls and compactions become spans."""
    conversation = read_conversation((SHORT_LOGS / "claude_code.jsonl").read_text())
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
    assert spans[3].usage == Usage(1500, 15, cached_tokens=1200).to_dict()
    assert spans[5].data == {"trigger": "auto", "tokens_before": 155000}
    assert "one test fails" in spans[5].payload["summary"]


def test_tokens_that_were_written_to_the_cache_are_recorded() -> None:
    """They cost more than other input, and the gateway records them for the same call."""
    text = (SHORT_LOGS / "claude_code.jsonl").read_text()
    written = re.sub(r'"cache_read_input_tokens": ?1200', '"cache_creation_input_tokens": 1200', text)
    call = [span for span in read_conversation(written).spans if span.kind == "generation"][1]
    assert call.usage == Usage(1500, 15, cache_write_tokens=1200).to_dict()
