"""The file, database and Ariadne archives store every transcript once and replace none."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from compact import CompactConfig, CompactManager, CompactPolicy, NoopEstimator
from compact.adapters import AriadneStorage, DatabaseStorage, FileStorage
from compact.adapters.transcript import folder_name
from compact.exceptions import CompactError
from compact.messages import Message, content_hash
from compact.testing import RecordingExporter
from hypothesis import given
from hypothesis import strategies as st
from ports import reserve_port
from receiver import Answer, Receiver, eventually

MESSAGES = [Message("user", "hello ☃", id="m1"), Message("assistant", "hi", id="m2")]
SUMMARY = Message("assistant", "<COMPACT-SUMMARY v1>\nsaid hello")


@pytest.mark.req("S-STO-1")
def test_file_archive_has_the_specified_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transcript, summary and events have the paths of the specification, by default under .compact/archive."""
    monkeypatch.chdir(tmp_path)
    storage = FileStorage()
    saved = storage.save_transcript("session-1", MESSAGES, step=1)
    storage.save_summary("session-1", SUMMARY, 1)
    storage.save_event("session-1", {"event": "compact.archival"})
    storage.save_event("session-1", {"event": "compact.check"})
    folder = tmp_path / ".compact/archive/session-1"
    names = {"transcript-pre-compact-001.jsonl", "summary-001.json", "events.jsonl", "SHA256SUMS"}
    assert {file.name for file in folder.iterdir()} == names
    body = (folder / "transcript-pre-compact-001.jsonl").read_bytes()
    assert [json.loads(line) for line in body.splitlines()] == [
        {"id": "m1", "role": "user", "content": "hello ☃"},
        {"id": "m2", "role": "assistant", "content": "hi"},
    ]
    assert saved["path"] == ".compact/archive/session-1/transcript-pre-compact-001.jsonl"
    assert (saved["sha256"], saved["message_count"]) == (hashlib.sha256(body).hexdigest(), 2)
    assert json.loads((folder / "summary-001.json").read_text())["summary"]["content"] == SUMMARY.content
    assert [json.loads(line)["event"] for line in (folder / "events.jsonl").read_text().splitlines()] == [
        "compact.archival",
        "compact.check",
    ]


def test_archived_line_has_the_hash_of_its_message(tmp_path: Path) -> None:
    """The hash in a fate ledger equals the hash of the archived line."""
    saved = FileStorage(tmp_path).save_transcript("s", MESSAGES)
    lines = [json.loads(line) for line in Path(saved["path"]).read_text().splitlines()]
    assert [content_hash(line) for line in lines] == [content_hash(m.to_dict()) for m in MESSAGES]


def test_sha256sum_can_verify_the_archive(tmp_path: Path) -> None:
    """`sha256sum -c` accepts the SHA256SUMS file."""
    storage = FileStorage(tmp_path)
    storage.save_transcript("s", MESSAGES)
    storage.save_summary("s", SUMMARY, 1)
    command = ["sha256sum", "-c", "SHA256SUMS"]
    result = subprocess.run(command, cwd=tmp_path / "s", capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert result.stdout.count("OK") == 2
    for number, writer in enumerate((storage, storage, FileStorage(tmp_path), storage)):
        writer.save_event("s", {"event": "compact.check", "number": number})
    result = subprocess.run(command, cwd=tmp_path / "s", capture_output=True, text=True, check=False)
    assert "events.jsonl: OK" in result.stdout and result.stdout.count("OK") == 3, result.stdout


def test_archived_step_is_never_replaced(tmp_path: Path) -> None:
    """Saving the same content again has no effect. Other content for the same step gets the next number."""
    storage = FileStorage(tmp_path)
    first = storage.save_transcript("s", MESSAGES, step=1)
    assert storage.save_transcript("s", MESSAGES, step=1) == first
    other = storage.save_transcript("s", MESSAGES[:1], step=1)
    assert other["path"].endswith("transcript-pre-compact-002.jsonl")
    assert storage.save_transcript("s", MESSAGES * 2)["step"] == 3
    assert hashlib.sha256(Path(first["path"]).read_bytes()).hexdigest() == first["sha256"]
    storage.save_summary("s", SUMMARY, 1)
    moved = Path(storage.save_summary("s", Message("assistant", "other"), 1)["path"])
    assert (moved.name, json.loads(moved.read_text())["step"]) == ("summary-002.json", 2)


_TEN_STEPS = """
import sys
from compact import FileStorage, Message
for step in range(1, 11):
    message = Message("user", f"worker {sys.argv[2]}, step {step}")
    FileStorage(sys.argv[1]).save_transcript("s", [message], step=step)
"""


def test_two_processes_can_share_an_archive(tmp_path: Path) -> None:
    """Both processes write the same steps. Every transcript is archived and listed."""
    command = [sys.executable, "-c", _TEN_STEPS, str(tmp_path)]
    workers = [subprocess.Popen([*command, number]) for number in ("1", "2")]
    assert [worker.wait() for worker in workers] == [0, 0]
    texts = {json.loads(file.read_text())["content"] for file in tmp_path.glob("s/transcript-pre-compact-*.jsonl")}
    assert texts == {f"worker {worker}, step {step}" for worker in (1, 2) for step in range(1, 11)}
    assert len((tmp_path / "s" / "SHA256SUMS").read_text().splitlines()) == 20


def test_missing_checksum_is_added_later(tmp_path: Path) -> None:
    """If a process was killed before it wrote a checksum, the next save adds it."""
    storage = FileStorage(tmp_path)
    storage.save_transcript("s", [Message("user", "one")], step=1)
    sums = tmp_path / "s" / "SHA256SUMS"
    before = sums.read_bytes()
    sums.unlink()
    storage.save_transcript("s", [Message("user", "one")], step=1)
    assert sums.read_bytes() == before


def test_archive_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    """Other users of the machine cannot read a transcript."""
    saved = Path(FileStorage(tmp_path / "archive").save_transcript("s", MESSAGES)["path"])
    assert stat.S_IMODE(saved.stat().st_mode) & 0o077 == 0
    assert stat.S_IMODE(saved.parent.stat().st_mode) & 0o077 == 0


def test_unwritable_directory_raises(tmp_path: Path) -> None:
    """The error reaches the caller before it prunes."""
    (tmp_path / "archive").write_text("a file instead of a directory")
    with pytest.raises(OSError, match="archive"):
        FileStorage(tmp_path / "archive").save_transcript("s", MESSAGES)


@pytest.mark.req("P-STO-1")
@pytest.mark.parametrize("is_required", [True, False])
def test_failed_archive_prevents_pruning_if_required(tmp_path: Path, is_required: bool) -> None:
    """If archiving fails, nothing is pruned and preflight raises. With archive_required=False it prunes and warns."""
    (tmp_path / "archive").write_text("a file instead of a directory")
    recorder = RecordingExporter()
    manager = CompactManager(
        CompactConfig(
            "gpt-5",
            2_000,
            policy=CompactPolicy(keep_recent_turns=1, hard_cap_buffer=50),
            token_estimator=NoopEstimator(),
            exporter=recorder,
            storage=FileStorage(tmp_path / "archive"),
            archive_required=is_required,
        )
    )
    history = [Message("user", f"{n} " + "word " * 200) for n in range(20)]
    if is_required:
        with pytest.raises(CompactError, match="could not be archived"):
            manager.preflight("s", history)
        assert recorder.of("compact.error")
        assert not recorder.of("compact.pruned_messages")
    else:
        sent = manager.preflight("s", history)
        assert len(sent) < len(history)
        assert "archive_failed" in [event["properties"]["code"] for event in recorder.of("compact.warning")]


@pytest.mark.req("S-STO-1")
def test_transcript_is_archived_before_pruning(tmp_path: Path) -> None:
    """The archive has the redacted history, and the archival event precedes the pruning and has the hash."""
    recorder = RecordingExporter()
    policy = CompactPolicy(keep_recent_turns=1, hard_cap_buffer=50)
    storage = FileStorage(tmp_path)
    manager = CompactManager(
        CompactConfig(
            "gpt-5", 2_000, policy=policy, token_estimator=NoopEstimator(), exporter=recorder, storage=storage
        )
    )
    manager.preflight("s", [Message("user", f"{n} password=hunter2 " + "word " * 200) for n in range(20)])
    body = (tmp_path / "s/transcript-pre-compact-001.jsonl").read_bytes()
    archival = recorder.of("compact.archival")[0]["properties"]
    assert body.count(b"\n") == 20 == archival["message_count"]
    assert b"hunter2" not in body
    assert archival["redactions"] == {"password": 20}
    assert archival["sha256"] == hashlib.sha256(body).hexdigest()
    assert recorder.names.index("compact.archival") < recorder.names.index("compact.pruned_messages")
    logged = [json.loads(line)["event"] for line in (tmp_path / "s/events.jsonl").read_text().splitlines()]
    assert logged == recorder.names
    assert (tmp_path / "s/summary-001.json").is_file()


@pytest.mark.req("P-STO-1")
def test_retention_deletes_old_sessions(tmp_path: Path) -> None:
    """Sessions not changed within the retention are deleted. Without a retention, none are."""
    storage = FileStorage(tmp_path, retention_days=30)
    old, new = storage.save_transcript("old", MESSAGES), storage.save_transcript("new", MESSAGES)
    for file in Path(old["path"]).parent.iterdir():
        os.utime(file, (0, 0))
    assert FileStorage(tmp_path).clean() == 0
    assert storage.clean() == 1
    assert not Path(old["path"]).parent.exists()
    assert Path(new["path"]).exists()


@given(st.text(min_size=0, max_size=300), st.text(max_size=300))
def test_every_session_id_has_its_own_safe_folder(one: str, other: str) -> None:
    """A folder is inside the archive, is not hidden, and belongs to one session."""
    name = folder_name(one)
    assert name
    assert "/" not in name
    assert "\\" not in name
    assert not name.startswith(".")
    assert len(name) <= 255
    assert (folder_name(other) == name) == (other == one)


def test_common_session_ids_are_used_unchanged() -> None:
    """Common ids match the specification, and unsafe ones are escaped."""
    assert folder_name("session-1_a.b") == "session-1_a.b"
    assert folder_name("../../etc") == "%2E.%2F..%2Fetc"
    assert folder_name("half \ud83d") == "half %ED%A0%BD"


@pytest.mark.req("P-STO-1")
def test_database_archive_applies_retention(tmp_path: Path) -> None:
    """A DB-API database stores transcripts, summaries and events, and deletes old ones."""
    file = tmp_path / "archive.db"
    storage = DatabaseStorage(lambda: sqlite3.connect(file), retention_days=1)
    first = storage.save_transcript("s", MESSAGES, step=1)
    assert storage.save_transcript("s", MESSAGES, step=1) == first
    assert storage.save_transcript("s", MESSAGES[:1], step=1)["step"] == 2
    storage.save_summary("s", SUMMARY, 1)
    storage.save_event("s", {"event": "compact.check"})
    connection = sqlite3.connect(file)
    rows = connection.execute("SELECT step, sha256, body FROM compact_transcripts ORDER BY step").fetchall()
    assert [row[0] for row in rows] == [1, 2]
    assert all(hashlib.sha256(row[2].encode()).hexdigest() == row[1] for row in rows)
    assert connection.execute("SELECT count(*) FROM compact_summaries").fetchone() == (1,)
    connection.execute("UPDATE compact_transcripts SET created_at = 0 WHERE step = 1")
    connection.commit()
    storage.save_transcript("s", MESSAGES[:1])
    assert connection.execute("SELECT min(step) FROM compact_transcripts").fetchone() == (2,)
    connection.close()


@pytest.mark.req("K-STO-1")
def test_transcript_is_uploaded_with_its_hash(tmp_path: Path) -> None:
    """The request has session, step and SHA-256 in its query, a gzip body and a bearer key."""
    with Receiver(Answer(201)) as receiver:
        storage = AriadneStorage(receiver.url, "key", spool_dir=tmp_path)
        saved = storage.save_transcript("a session/1", MESSAGES, step=1)
        assert storage.flush()
        storage.close()
        (request,) = receiver.requests
    assert request.path.startswith("/ingest/transcripts?session=a+session%2F1&step=1&sha256=" + saved["sha256"])
    assert hashlib.sha256(request.raw).hexdigest() == saved["sha256"]
    assert request.headers["authorization"] == "Bearer key"
    assert saved["key"] == "ariadne:a session/1/1"


@pytest.mark.req("K-STO-1")
def test_transcripts_survive_an_unreachable_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Transcripts are spooled before pruning, and the next process uploads them."""
    with reserve_port() as port:
        storage = AriadneStorage(f"http://127.0.0.1:{port}", "key", spool_dir=tmp_path)
        storage.save_transcript("s", MESSAGES)
        storage.save_transcript("s", MESSAGES * 2)
        eventually(lambda: storage.stats()["failures"])
        assert storage.stats()["waiting"] == 2
        storage.close(0.1)
        assert "[Ariadne]" in capsys.readouterr().err
        with Receiver(port=port) as receiver:
            later = AriadneStorage(receiver.url, "key", spool_dir=tmp_path)
            assert later.flush()
            later.close()
    assert ["step=1" in request.path or "step=2" in request.path for request in receiver.requests] == [True, True]


def test_failed_upload_without_a_spool_raises(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a spool no other copy exists, so the error reaches the caller before it prunes."""
    with Receiver(Answer(409, body={"error": "conflict"})) as receiver:
        storage = AriadneStorage(receiver.url, "key", spool_dir=None, exit_timeout_s=1)
        with pytest.raises(CompactError, match="could not be archived"):
            storage.save_transcript("s", MESSAGES)
        storage.close()
    assert "HTTP 409" in capsys.readouterr().err


def test_a_full_spool_refuses_a_transcript_and_drops_none(tmp_path: Path) -> None:
    """A queued transcript is the only copy, so the next compaction fails instead of dropping it."""
    storage = AriadneStorage("http://127.0.0.1:1", "key", spool_dir=tmp_path, spool_bytes=2_000, max_backoff_s=0.01)
    saved: list[Any] = []
    with pytest.raises(CompactError, match="the spool is full"):
        saved.extend(storage.save_transcript("s", [Message("user", os.urandom(200).hex())]) for _ in range(20))
    assert 0 < len(saved) == storage.stats()["waiting"]
    storage.close(0.1)


@pytest.mark.req("P-STO-1")
def test_custom_adapter_needs_three_methods() -> None:
    """A class with the three methods satisfies the protocol."""
    from compact.protocols import StorageAdapter

    class CustomStorage:
        def save_transcript(self, session_id: str, transcript: Any) -> None: ...
        def save_summary(self, session_id: str, summary: Message, step: int) -> None: ...
        def save_event(self, session_id: str, event: dict[str, Any]) -> None: ...

    assert isinstance(CustomStorage(), StorageAdapter)
    assert isinstance(FileStorage("x"), StorageAdapter)
