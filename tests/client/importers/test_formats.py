"""Logs of each agent and version, as the agents write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compact.agents.registry import AGENTS
from compact.importers import (
    Conversation,
    UnreadableLog,
    infer_ledger,
    ingest_events,
    read_conversation,
    read_log,
)

LOGS = Path(__file__).resolve().parents[2] / "fixtures" / "agent_logs"
CLAUDE = LOGS / "claude_code_2" / "7f3d9a10-4b1e-4c57-9a51-0d2b6f3c8e11.jsonl"
CODEX = LOGS / "codex_new" / "rollout-2026-08-07T14-00-00-0199aaaa-0000-7000-8000-000000000001.jsonl"
ALL = sorted(path for path in LOGS.rglob("*.json*") if not path.name.endswith(".meta.json"))


def read(path: Path) -> Conversation:
    return read_log(path)[0]


def spans(conversation: Conversation, kind: str) -> list[tuple[str, str]]:
    return [(span.key, span.name) for span in conversation.spans if span.kind == kind]


def tokens(conversation: Conversation) -> int:
    return sum(span.usage["input_tokens"] + span.usage["output_tokens"] for span in conversation.spans if span.usage)


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.parent.name + "/" + path.name[:24])
def test_every_log_has_a_session_and_stable_events(path: Path) -> None:
    """Reading a log twice gives the same events, and each span has its own id."""
    conversation = read(path)
    assert conversation.session_id
    assert conversation.source in {agent.name for agent in AGENTS}
    events = list(ingest_events(conversation, session_id="s"))
    assert events == list(ingest_events(read(path), session_id="s"))
    ids = [event["span_id"] for event in events if event["type"] == "span"]
    assert len(ids) == len(set(ids))
    assert json.dumps(events)


def test_claude_code_blocks_of_one_message_are_one_model_call() -> None:
    """Tool results between the blocks do not split the call, and its tokens count once."""
    conversation = read(CLAUDE)
    calls = [span for span in conversation.spans if span.kind == "generation"]
    assert [call.key for call in calls] == [f"generation:msg_0{n}" for n in range(1, 6)]
    assert calls[0].usage == {"input_tokens": 1200, "cached_tokens": 800, "output_tokens": 90}
    content = calls[0].payload["output"][0]["content"]
    assert [block["type"] for block in content] == ["thinking", "text", "tool_use", "tool_use"]
    tools = [span for span in conversation.spans if span.kind == "tool"]
    assert [(span.name, span.is_error) for span in tools][:2] == [("Read", False), ("Bash", True)]
    assert spans(conversation, "user") == [("user:u1", "user"), ("user:u6", "notice"), ("user:u7", "user")]


def test_a_corrupt_line_is_skipped_and_reported_by_number() -> None:
    """Lines end at a newline only: U+2028 inside a text does not split one."""
    conversation, skipped = read_log(CLAUDE)
    assert [(line.line, line.is_incomplete) for line in skipped] == [(20, False)]
    assert "\u2028The ticket is SHOP-4711." in conversation.items[0]["content"]


def test_a_half_written_last_line_is_incomplete(tmp_path: Path) -> None:
    """A complete last line without a newline is read."""
    lines = CLAUDE.read_bytes().split(b"\n")
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"\n".join(lines[:5]) + b"\n" + lines[5][:80])
    assert [(line.line, line.is_incomplete) for line in read_log(path)[1]] == [(6, True)]
    path.write_bytes(b"\n".join(lines[:6]))
    conversation, skipped = read_log(path)
    assert not skipped
    assert len(conversation.items[1]["content"]) == 3


@pytest.mark.parametrize("damage", [b"\0" * 64 + b"\n", b"[1]\n", b"\xff\xfe{\n", b'{"a":' * 5000 + b"\n"])
def test_damage_inside_a_log_does_not_stop_the_reader(tmp_path: Path, damage: bytes) -> None:
    """Everything around the damaged line is read."""
    lines = (LOGS.parent / "logs" / "claude_code.jsonl").read_bytes().splitlines(keepends=True)
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"".join([*lines[:4], damage, *lines[4:]]))
    conversation, skipped = read_log(path)
    assert [line.line for line in skipped] == [5]
    assert conversation.items == read(LOGS.parent / "logs" / "claude_code.jsonl").items


def test_sub_agents_nest_below_their_call() -> None:
    """In files of their own (version 2) and as side chains (version 1)."""
    (agent,) = (span for span in read(CLAUDE).spans if span.kind == "agent")
    assert (agent.key, agent.parent, agent.name) == ("agent:a7c1", "tool:toolu_03", "Explore")
    own = read(CLAUDE.parent / CLAUDE.stem / "subagents" / "agent-a7c1.jsonl")
    assert own.session_id == CLAUDE.stem
    assert {span.parent for span in own.spans if span.kind != "agent"} == {"agent:a7c1"}
    first = read(LOGS / "claude_code_1" / "11111111-2222-4333-8444-555555555555.jsonl")
    (agent,) = (span for span in first.spans if span.kind == "agent")
    assert agent.parent == "tool:toolu_t"
    assert [span.kind for span in first.spans if span.parent == agent.key] == ["user", "generation", "tool"]
    child = read(next((LOGS / "codex_new").glob("*0199cccc*")))
    assert child.session_id == read(CODEX).session_id
    assert [span.name for span in child.spans if span.kind == "agent"] == ["explorer"]


@pytest.mark.parametrize(
    ("pattern", "kind", "origin", "own_tokens"),
    [
        ("claude_code_2/9c55*", "forked", CLAUDE.stem, 1540),
        ("claude_code_1/6666*", "resumed", "11111111-2222-4333-8444-555555555555", 740),
        ("codex_new/*0199bbbb*", "forked", "0199aaaa-0000-7000-8000-000000000001", 6010),
        ("pi_1/*", "forked", "d97339c6-6c10-4827-846b-9ff1d9c3dc37", 505),
    ],
)
def test_resumed_and_forked_sessions_link_to_their_origin(
    pattern: str, kind: str, origin: str, own_tokens: int
) -> None:
    """Copied records are part of the prompt, but their tokens belong to the other session."""
    conversation = read(next(LOGS.glob(pattern)))
    assert conversation.link is not None
    assert (conversation.link.kind, conversation.link.session_id) == (kind, origin)
    assert tokens(conversation) == own_tokens
    events = list(ingest_events(conversation, session_id="s"))
    assert events[1]["data"][f"{kind}_from"] == origin


def test_codex_counts_repeated_token_events_once() -> None:
    """The same totals again, for example with new rate limits, belong to no further call."""
    conversation = read(CODEX)
    usage = [span.usage["input_tokens"] for span in conversation.spans if span.kind == "generation"]
    assert usage == [5000, 240000, 9000]
    assert conversation.window_tokens == 272_000
    (tool,) = (span for span in conversation.spans if span.kind == "tool")
    assert tool.is_error
    assert spans(conversation, "user")[0][1] == "notice"


def test_codex_logs_of_2025_have_bare_items() -> None:
    """The time is that of the session, and the folder comes from the first message."""
    conversation = read(next((LOGS / "codex_old").glob("*.jsonl")))
    assert (conversation.session_id, conversation.cwd) == ("b0b0b0b0-0000-4000-8000-000000000001", "/home/dev/old")
    assert [span.kind for span in conversation.spans] == ["user", "user", "generation", "tool", "generation"]
    assert {span.started_at for span in conversation.spans} == {"2025-06-20T10:00:00.000Z"}


def test_pi_branches_are_followed() -> None:
    """The prompt is the path to the newest entry, without abandoned answers."""
    conversation = read(next((LOGS / "pi_3").rglob("*.jsonl")))
    assert conversation.cwd == "/home/dev/site"
    assert [message.id for message in conversation.compactions[0].before] == ["e1", "e2", "e3", "e4"]
    assert [message.id for message in conversation.context] == ["e5-summary", "e4", "e6"]


def test_gemini_logs_are_read_as_document_and_as_journal() -> None:
    """A message that is written again replaces its earlier version. A rewind removes messages."""
    document = read(next((LOGS / "gemini_document").rglob("*.json")))
    assert [item["role"] for item in document.items] == ["user", "assistant", "user"]
    assert document.items[2]["content"][0]["content"] == "512 orders.csv"
    journal = read(next((LOGS / "gemini_journal").rglob("*.jsonl")))
    assert journal.cwd == "/home/dev/shop"
    assert tokens(journal) == 980
    (compaction,) = journal.compactions
    assert [message.id for message in compaction.before] == ["c0", "u1", "g1"]
    assert [message.id for message in compaction.after] == ["s1", "s2", "g1"]
    assert compaction.fates == {"g1": ("kept", "in the new history")}


def test_other_files_are_not_logs(tmp_path: Path) -> None:
    """The error names the file."""
    path = tmp_path / "other.jsonl"
    path.write_text('{"a": 1}\n')
    with pytest.raises(UnreadableLog, match=r"other\.jsonl"):
        read_log(path)


def test_the_next_prompt_shows_the_size_after_a_codex_compaction():
    """An encrypted summary has no size of its own. The next model call reports the tokens of the new prompt."""
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go on with ORD-4711."}]}
    usage = {"input_tokens": 31_000, "cached_input_tokens": 0, "output_tokens": 5}
    hidden = {"type": "compaction", "encrypted_content": "gAAAA"}
    records = [
        {"type": "session_meta", "payload": {"id": "codex-1", "cwd": "/repo"}},
        {"type": "response_item", "payload": item},
        {"type": "compacted", "payload": {"message": "", "replacement_history": [item, hidden]}},
        {"type": "response_item", "payload": {**item, "role": "assistant"}},
        {"type": "event_msg", "payload": {"type": "token_count", "info": {"last_token_usage": usage}}},
    ]
    text = "\n".join(json.dumps({"timestamp": "2026-11-16T04:00:00.000Z", **record}) for record in records)
    (compaction,) = [span.compaction for span in read_conversation(text).spans if span.compaction]
    assert infer_ledger(compaction).tokens_after == 31_000
