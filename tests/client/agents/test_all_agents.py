"""The logs of all agents: sessions, events, links and damage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from agent_logs import AGENTS as AGENT_FOLDERS
from agent_logs import ALL, CLAUDE_CODE_SESSION, SHORT_LOGS, read, tokens
from compact import agents
from compact.agents.registry import AGENTS
from compact.importers import UnreadableLog, ingest_events, read_log


def test_each_folder_is_an_agent_with_logs_and_tests() -> None:
    """To add an agent, add its folder here and there. No list names it."""
    folders = {path.parent.name for path in Path(agents.__file__).parent.glob("*/agent.py")}
    assert len(AGENTS) == len(folders) >= 5
    assert {path.parent.name for path in AGENT_FOLDERS.glob("*/test_*.py")} == folders
    assert {path.parts[len(AGENT_FOLDERS.parts)] for path in ALL} == folders


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


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.parent.name + "/" + path.name[:24])
def test_a_compaction_has_the_turn_of_the_call_after_it(path: Path) -> None:
    """Two rows of the session page with one turn number would be two answers to the same question."""
    earlier: set[int] = set()
    for event in ingest_events(read(path), session_id="s"):
        if event.get("kind") == "compact.token_estimate":
            earlier.add(event["properties"]["turn"])
        elif event.get("kind") == "compact.check":
            assert event["properties"]["turn"] not in earlier


@pytest.mark.parametrize("damage", [b"\0" * 64 + b"\n", b"[1]\n", b"\xff\xfe{\n", b'{"a":' * 5000 + b"\n"])
def test_damage_inside_a_log_does_not_stop_the_reader(tmp_path: Path, damage: bytes) -> None:
    """Everything around the damaged line is read."""
    lines = (SHORT_LOGS / "claude_code.jsonl").read_bytes().splitlines(keepends=True)
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"".join([*lines[:4], damage, *lines[4:]]))
    conversation, skipped = read_log(path)
    assert [line.line for line in skipped] == [5]
    assert conversation.items == read(SHORT_LOGS / "claude_code.jsonl").items


@pytest.mark.parametrize(
    ("pattern", "kind", "origin", "own_tokens"),
    [
        ("claude_code/logs/version_2/9c55*", "forked", CLAUDE_CODE_SESSION.stem, 1540),
        ("claude_code/logs/version_1/6666*", "resumed", "11111111-2222-4333-8444-555555555555", 740),
        ("codex/logs/records/*0199bbbb*", "forked", "0199aaaa-0000-7000-8000-000000000001", 6010),
        ("pi/logs/version_1/*", "forked", "d97339c6-6c10-4827-846b-9ff1d9c3dc37", 505),
    ],
)
def test_resumed_and_forked_sessions_link_to_their_origin(
    pattern: str, kind: str, origin: str, own_tokens: int
) -> None:
    """Copied records are part of the prompt, but their tokens belong to the other session."""
    conversation = read(next(AGENT_FOLDERS.glob(pattern)))
    assert conversation.link is not None
    assert (conversation.link.kind, conversation.link.session_id) == (kind, origin)
    assert tokens(conversation) == own_tokens
    events = list(ingest_events(conversation, session_id="s"))
    assert events[1]["data"][f"{kind}_from"] == origin


def test_other_files_are_not_logs(tmp_path: Path) -> None:
    """The error names the file."""
    path = tmp_path / "other.jsonl"
    path.write_text('{"a": 1}\n')
    with pytest.raises(UnreadableLog, match=r"other\.jsonl"):
        read_log(path)
