"""Session logs of other agents, read as conversations and turned into events for the server."""

from __future__ import annotations

import json

import pytest
from agent_logs import SHORT_LOGS
from compact import CompactConfig, CompactManager
from compact.importers import UnreadableLog, ingest_events, read_conversation


@pytest.mark.parametrize("name", ["claude_code", "codex"])
def test_an_imported_conversation_can_be_compacted(name: str) -> None:
    """A manager accepts the messages in the format of the log."""
    conversation = read_conversation((SHORT_LOGS / f"{name}.jsonl").read_text())
    manager = CompactManager(CompactConfig(model="gpt-5", max_context_tokens=100_000))
    assert manager.preflight("s", conversation.items, format=conversation.format) == conversation.items


@pytest.mark.parametrize("name", ["claude_code", "codex"])
def test_importing_a_log_again_gives_the_same_events(name: str) -> None:
    """The ids of a shorter version of the log are also in the longer one."""
    text = (SHORT_LOGS / f"{name}.jsonl").read_text()
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
