"""Sessions of opencode: an exported document, the older files per message and part, and the SQLite database."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_logs import OPENCODE
from compact.agents.log_records import LogRecord
from compact.agents.opencode import storage
from compact.agents.registry import BY_NAME
from compact.importers import infer_ledger, ingest_events, read_log
from compact.importers.discovery import LogFilter, find_sessions, get_session
from compact.importers.follower import Importer
from compact.importers.log_file import LogFile
from compact.importers.log_source import status_of
from compact.importers.upload import DryRun
from compact.importers.watch_state import WatchState

SESSION, CHILD = "ses_3f2a91c0ffeeShopMigration1", "ses_3f2a91c0beefExploreTheCode1"
SECRET = "ghp_Q7rT2mX9vB4nK8sL1wZ6yH3jD5fG0cAeRtYu"
SCHEMA = """
CREATE TABLE session (id text PRIMARY KEY, project_id text NOT NULL, parent_id text, slug text NOT NULL,
    directory text NOT NULL, title text NOT NULL, version text NOT NULL, time_created integer NOT NULL,
    time_updated integer NOT NULL);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
    time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
    time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE session_message (id text PRIMARY KEY, session_id text NOT NULL, type text NOT NULL,
    seq integer NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
"""


def export(name: str = SESSION) -> dict[str, Any]:
    return json.loads((OPENCODE / f"{name}.json").read_text())


def write_files(root: Path, document: dict[str, Any]) -> Path:
    """Write a session as the versions without a database do, and return its path."""
    storage, info = root / "storage", document["info"]
    path = write_json(storage / "session" / info["projectID"] / f"{info['id']}.json", info)
    for message in document["messages"]:
        name = message["info"]["id"]
        write_json(storage / "message" / info["id"] / f"{name}.json", message["info"])
        for part in message["parts"]:
            write_json(storage / "part" / name / f"{part['id']}.json", part)
    return path


def write_json(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2))
    return path


def write_rows(root: Path, document: dict[str, Any]) -> Path:
    """Write a session to the database, as newer versions do, and return its path."""
    database, info = root / "opencode.db", document["info"]
    root.mkdir(parents=True, exist_ok=True)
    is_new = not database.exists()
    connection = sqlite3.connect(database)
    if is_new:
        connection.executescript("PRAGMA journal_mode = WAL;" + SCHEMA)
    row = (info["id"], info["projectID"], info.get("parentID"), info["slug"], info["directory"], info["title"])
    times = (info["time"]["created"], info["time"]["updated"])
    connection.execute("REPLACE INTO session VALUES (?,?,?,?,?,?,?,?,?)", (*row, info["version"], *times))
    for message in document["messages"]:
        head, created = message["info"], message["info"]["time"]["created"]
        data = json.dumps({key: value for key, value in head.items() if key not in ("id", "sessionID")})
        connection.execute("REPLACE INTO message VALUES (?,?,?,?,?)", (head["id"], info["id"], created, created, data))
        for part in message["parts"]:
            data = json.dumps({key: part[key] for key in part if key not in ("id", "sessionID", "messageID")})
            values = (part["id"], head["id"], info["id"], created, created, data)
            connection.execute("REPLACE INTO part VALUES (?,?,?,?,?,?)", values)
    connection.commit()
    connection.close()
    return database / f"{info['id']}.json"


def write_export(root: Path, document: dict[str, Any]) -> Path:
    return write_json(root / f"{document['info']['id']}.json", document)


WRITERS = pytest.mark.parametrize("write", [write_export, write_files, write_rows])
Writer = Callable[[Path, dict[str, Any]], Path]


@WRITERS
def test_each_storage_gives_the_same_session(write: Writer, tmp_path: Path) -> None:
    """Messages, calls, tokens and both compactions are the same from an export, from files and from a database."""
    conversation, skipped = read_log(write(tmp_path, export()))
    assert not skipped
    assert (conversation.source, conversation.session_id, conversation.cwd) == ("opencode", SESSION, "/home/dev/shop")
    expected, _ = read_log(OPENCODE / f"{SESSION}.json")
    assert list(ingest_events(conversation, session_id="s")) == list(ingest_events(expected, session_id="s"))
    tools = [(span.name, span.is_error, span.ended_at is None) for span in conversation.spans if span.kind == "tool"]
    assert tools == [("read", False, False), ("bash", True, False), ("write", False, False), ("bash", False, True)]
    labels = [span.name for span in conversation.spans if span.kind == "user"]
    assert labels == ["user", "user", "user", "notice", "notice"]
    first = next(span for span in conversation.spans if span.kind == "generation")
    assert first.usage == {"input_tokens": 900, "cached_tokens": 0, "cache_write_tokens": 0, "output_tokens": 60}


def test_old_outputs_are_cleared_and_then_a_summary_replaces_the_messages_before_the_tail() -> None:
    """Each has a ledger: the cleared output, the kept tail, and the facts that the summary does not have."""
    conversation, _ = read_log(OPENCODE / f"{SESSION}.json")
    clearing, compaction = conversation.compactions
    assert {name for name, (fate, _) in clearing.fates.items() if fate == "cleared"} == {"msg_0002/results"}
    assert [message.id for message in clearing.before][-1] == "msg_0005"
    assert [fact.text for fact in infer_ledger(clearing).lost] == ["77310"]
    assert [message.id for message in compaction.after] == [
        "msg_0008", "msg_0009", "msg_0006", "msg_0007", "msg_0007/results",
    ]  # fmt: skip
    assert list(compaction.fates) == ["msg_0006", "msg_0007", "msg_0007/results"]
    assert (compaction.trigger, compaction.tokens_before, compaction.duration_ms) == ("auto", 1540, 4000)
    ledger = infer_ledger(compaction)
    assert any("invoices_2019" in fact.text for fact in ledger.lost)
    assert "SHOP-4711" in {fact.text for fact in ledger.kept}
    assert [message.id for message in conversation.context][-2:] == ["msg_0010", "msg_0011"]


def test_a_summary_without_a_request_is_a_compaction() -> None:
    """Versions of 2025 write only the summary, and the prompt starts with it."""
    document = export()
    document["messages"] = [m for m in document["messages"] if m["info"]["id"] != "msg_0008"]
    parser = BY_NAME["opencode"].parser()
    parser.feed(LogRecord(document, b"", 1, 0))
    compaction = [span.compaction for span in parser.recorder.drain() if span.compaction][-1]
    assert [message.id for message in compaction.after] == ["msg_0009"]


@pytest.mark.parametrize("write", [write_files, write_rows])
def test_sub_agents_belong_to_the_first_session(write: Writer, tmp_path: Path) -> None:
    """A sub-agent of a sub-agent, too."""
    write(tmp_path, export())
    child = export(CHILD)
    write(tmp_path, child)
    child["info"] = {**child["info"], "id": "ses_grandchild", "parentID": CHILD}
    child["messages"] = [
        {"info": {**m["info"], "id": f"{m['info']['id']}x"}, "parts": [{**p, "id": f"{p['id']}x"} for p in m["parts"]]}
        for m in child["messages"]
    ]
    conversation, _ = read_log(write(tmp_path, child))
    assert conversation.session_id == SESSION
    assert {span.key for span in conversation.spans if span.kind == "agent"} == {"agent:ses_grandchild"}
    assert {span.parent for span in conversation.spans if span.kind == "tool"} == {"agent:ses_grandchild"}


@pytest.mark.parametrize("write", [write_files, write_rows])
def test_the_agents_own_place_is_searched(write: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that was copied from files to the database is found once."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    write_files(tmp_path / "opencode", export())
    path = write(tmp_path / "opencode", export())
    (log,) = LogFilter(agents=["opencode"]).find()
    assert (log.path, log.agent) == (path, BY_NAME["opencode"])
    assert [log.path for log in find_sessions(Path("/home/dev")) if log.agent_name == "opencode"] == [path]
    assert get_session(SESSION).path == path
    assert not LogFilter(agents=["opencode"], project=Path("/srv")).accepts(log)
    assert [log.path for log in LogFilter([tmp_path / "opencode"]).find()] == [path]


@pytest.mark.parametrize("write", [write_files, write_rows])
def test_a_session_that_grows_gives_only_its_news(write: Writer, tmp_path: Path) -> None:
    """The compaction comes once. A title that changes an old message does not add it to the prompt again."""
    document = export()
    messages = document["messages"]
    log = LogFile(write(tmp_path, {**document, "messages": messages[:7]}))
    first = [event for step in log.steps(None) for event in step.events]
    before = status_of(log.path)
    messages[0]["info"]["summary"]["title"] = "Another title"
    write(tmp_path, document)
    assert status_of(log.path) != before
    steps = list(log.steps(None))
    compactions = [span.compaction for step in steps for span in step.spans if span.compaction]
    assert [item.summary_id for item in compactions] == ["msg_0009"]
    assert "msg_0001" not in {message.id for message in compactions[0].after}
    calls = {event["span_id"] for event in first if event.get("kind") == "tool"}
    assert not calls & {event["span_id"] for step in steps for event in step.events if event.get("kind") == "tool"}
    assert log.position.size == status_of(log.path)[0]
    assert not [event for step in log.steps(None) for event in step.events]


def test_the_start_of_the_tail_may_come_after_the_summary() -> None:
    """opencode writes the summary first. The compaction is then sent again with the kept messages."""
    document = export()
    late = document["messages"].pop(7)["parts"][0]
    parser = BY_NAME["opencode"].parser()
    early = {key: late[key] for key in late if key != "tail_start_id"}
    for part in (early, late):
        request = {**export()["messages"][7], "parts": [part]}
        messages = [*document["messages"][:7], request, *document["messages"][7:]]
        parser.feed(LogRecord({**document, "messages": messages}, b"", 1, 0))
        sent = [span.compaction for span in parser.recorder.drain() if span.compaction]
        assert sent[-1].number == 2
    assert list(sent[-1].fates) == ["msg_0006", "msg_0007", "msg_0007/results"]
    names = ["msg_0008", "msg_0009", *sent[-1].fates, "msg_0010", "msg_0011"]
    assert list(parser.recorder.own_thread.prompt) == names


def test_a_search_of_the_database_sees_new_sessions_and_changes(tmp_path: Path) -> None:
    """Later searches look only at sessions with a prompt in the last day."""
    document, child = export(), export(CHILD)
    path = write_rows(tmp_path, {**document, "messages": document["messages"][:3]})
    assert storage.sessions_of(path.parent) == [path]
    before = status_of(path)
    document["info"]["time"]["updated"] = round(time.time() * 1000)
    write_rows(tmp_path, document)
    other = write_rows(tmp_path, child)
    assert set(storage.sessions_of(path.parent)) == {path, other}
    assert status_of(path)[0] > before[0]
    known = status_of(other)
    document["messages"][0]["parts"][0]["text"] += " Go on."
    write_rows(tmp_path, document)
    assert len(storage.sessions_of(path.parent)) == 2
    assert status_of(path)[0] > before[0] + 8
    assert status_of(other) == known


@pytest.mark.parametrize("write", [write_files, write_rows])
def test_an_import_continues_where_it_stopped(write: Writer, tmp_path: Path) -> None:
    """A session without news is not read again."""
    write(tmp_path, export())
    state = WatchState(tmp_path / "state.json")
    importer = Importer(LogFilter([tmp_path]), state, DryRun)
    (report,) = importer.import_all(importer.find_pending())
    assert (report.session, report.compactions, report.problem) == (SESSION, 2, None)
    assert importer.find_pending() == []


@pytest.mark.parametrize("write", [write_files, write_rows])
def test_no_secret_leaves_the_process(write: Writer, tmp_path: Path) -> None:
    """Texts, outputs, summaries and titles are redacted in both storages."""
    for name in (SESSION, CHILD):
        text = json.dumps(export(name)).replace("invoices_2019", f"invoices_2019 {SECRET}")
        document = json.loads(text.replace("/home/dev/shop", f"/home/dev/shop/{SECRET}"))
        document["info"]["title"] += f" {SECRET}"
        log = LogFile(write(tmp_path, document))
        sent = json.dumps([event for step in log.steps(None, is_final=True) for event in step.events])
        assert "<REDACTED>" in sent
        assert SECRET not in sent


def test_a_damaged_part_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    """The report names the part."""
    path = write_files(tmp_path, export())
    (tmp_path / "storage" / "part" / "msg_0005" / "prt_00050.json").write_text('{"type": "te')
    conversation, skipped = read_log(path)
    assert len(skipped) == 1
    assert "prt_00050" in skipped[0].reason
    assert len(conversation.compactions) == 2


def test_databases_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    """Another program's database, and sessions that only the newer table has."""
    path = write_rows(tmp_path, {**export(), "messages": []})
    connection = sqlite3.connect(path.parent)
    connection.execute("INSERT INTO session_message VALUES ('m', ?, 'user', 1, 1, 1, '{}')", (SESSION,))
    connection.commit()
    connection.close()
    (tmp_path / "opencode-dev.db").write_bytes(b"not a database" * 100)
    importer = Importer(LogFilter([tmp_path]), WatchState(None), DryRun)
    reports = {report.file.parent.name: report for report in importer.import_all(importer.find_pending())}
    assert "not a database" in str(reports["opencode-dev.db"].problem)
    assert "session_message" in str(reports["opencode.db"].skipped)
    assert storage.is_session(path)
