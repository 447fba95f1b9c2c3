"""Logs of other agents: read as conversations, and as spans that say only what the log says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compact import CompactConfig, CompactManager
from compact.importers import UnreadableLog, read_conversation, spans_of

LOGS = Path(__file__).resolve().parents[2] / "fixtures" / "logs"


def test_claude_code_logs_are_anthropic_conversations() -> None:
    """Blocks of one message are joined, sub-agents left out, tools timed, the real compaction found."""
    made = read_conversation((LOGS / "claude_code.jsonl").read_text())
    assert (made.source, made.session_id, made.model) == ("claude-code", "5a8c2f10-cc", "claude-opus-4-6")
    assert [item["role"] for item in made.items] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
        "user",
        "assistant",
    ]
    assert [block["type"] for block in made.items[1]["content"]] == ["text", "tool_use"]
    kinds = [moment.kind for moment in made.moments]
    assert kinds == ["user", "generation", "tool", "generation", "tool", "compaction", "user", "generation"]
    tool = made.moments[4]
    assert (tool.name, tool.started_at, tool.ended_at, tool.is_error) == (
        "Bash", "2026-11-16T04:00:06.000Z", "2026-11-16T04:00:09.000Z", True,
    )  # fmt: skip
    assert made.moments[3].usage == {"input_tokens": 1500, "cached_tokens": 1200, "output_tokens": 15}
    assert made.moments[5].data == {"trigger": "auto", "tokens_before": 155000}
    assert "one test fails" in made.moments[5].payload["summary"]


def test_codex_logs_are_responses_conversations() -> None:
    """Responses items as they are, usage from token counts, the window from the log."""
    made = read_conversation((LOGS / "codex.jsonl").read_text())
    assert (made.source, made.session_id, made.model) == ("codex", "0199-codex", "gpt-5-codex")
    assert made.window_tokens == 272_000
    assert [item["type"] for item in made.items] == [
        "message", "reasoning", "function_call", "function_call_output", "message",
    ]  # fmt: skip
    assert [moment.kind for moment in made.moments] == ["user", "generation", "tool", "generation", "compaction"]
    assert [m.usage["input_tokens"] for m in made.moments if m.kind == "generation"] == [2000, 2500]


@pytest.mark.parametrize("name", ["claude_code", "codex"])
def test_an_imported_conversation_can_be_compacted(name: str) -> None:
    """What was read goes straight into a manager, in its own format."""
    made = read_conversation((LOGS / f"{name}.jsonl").read_text())
    manager = CompactManager(CompactConfig(model="gpt-5", max_context_tokens=100_000))
    assert manager.preflight("s", made.items, format=made.format) == made.items


@pytest.mark.parametrize("name", ["claude_code", "codex"])
def test_importing_again_gives_the_same_spans(name: str) -> None:
    """Ids come from the session and the place in the log: a replay changes nothing, a longer log only adds."""
    text = (LOGS / f"{name}.jsonl").read_text()
    once = list(spans_of(read_conversation(text), session_id="s"))
    assert list(spans_of(read_conversation(text), session_id="s")) == once
    shorter = "".join(text.splitlines(keepends=True)[:-2])
    ids = {event.get("span_id") for event in once}
    assert {event.get("span_id") for event in spans_of(read_conversation(shorter), session_id="s")} <= ids
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
def test_plain_conversations_are_read_in_any_wrapping(text: str, roles: list[str]) -> None:
    """A list, an object, lines; a last line that is half written is passed over."""
    assert [item["role"] for item in read_conversation(text).items] == roles


@pytest.mark.parametrize("text", ["", "{}", "[]", "hello", '{"a": 1}\n{"b": 2}\n', '{"role": "user"}\nnot json\n{}\n'])
def test_what_is_no_conversation_is_refused(text: str) -> None:
    """The error says what was expected, or which line is wrong."""
    with pytest.raises(UnreadableLog, match=r"no conversation found|line 2 is not JSON"):
        read_conversation(text)
