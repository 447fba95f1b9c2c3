"""`compact.archival` says what the archive has confirmed, and steps continue after a restart.

Two tenants use each archive, with secrets of their own.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from builders import Recorder, chat_turns
from compact import (
    AriadneStorage,
    CompactConfig,
    CompactManager,
    CompactPolicy,
    DatabaseStorage,
    FileStorage,
    S3Storage,
)
from compact.messages import Message
from receiver import Answer, Receiver, Request, eventually

TENANTS = ("acme", "globex")


class Bucket:
    """An S3 client that keeps objects in memory and never replaces one."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put_object(self, *, Key: str, Body: bytes, **options: Any) -> None:
        from botocore.exceptions import ClientError

        if Key in self.objects:
            raise ClientError({"ResponseMetadata": {"HTTPStatusCode": 412}}, "PutObject")
        self.objects[Key] = Body

    def head_object(self, *, Key: str, **options: Any) -> dict[str, Any]:
        return {"Metadata": {"sha256": hashlib.sha256(self.objects[Key]).hexdigest()}}

    def get_paginator(self, name: str) -> Bucket:
        return self

    def paginate(self, *, Prefix: str, **options: Any) -> list[dict[str, Any]]:
        return [{"Contents": [{"Key": key} for key in self.objects if key.startswith(Prefix)]}]


class Archive(Receiver):
    """A server that answers like `POST /ingest/transcripts`."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: defaultdict[str, dict[int, str]] = defaultdict(dict)
        self.status = 200

    def answer(self, request: Request) -> Answer:
        query = {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}
        if self.status != 200:
            return Answer(self.status, body={"error": "not stored"})
        steps, step = self.steps[query["session"]], int(query["step"])
        if steps.get(step, query["sha256"]) != query["sha256"]:
            return Answer(409, body={"code": "conflict", "error": "taken", "next_step": max(steps) + 1})
        steps[step] = query["sha256"]
        return Answer(body={"step": step})


def compact(storage: Any, recorder: Recorder, tenant: str, number: int, **options: Any) -> list[Message]:
    """Compact a session in a new process, which knows nothing of earlier ones."""
    policy = CompactPolicy(hard_cap_buffer=100, keep_recent_turns=2)
    manager = CompactManager(
        CompactConfig("gpt-5", 3_000, policy=policy, storage=storage, exporter=recorder, **options)
    )
    start = Message("user", f"password: hunter2-{tenant}-Qz8{number}")
    return manager.manual_compact(tenant, [start, *chat_turns(12, start=20 * number)])


def archivals(recorder: Recorder) -> list[tuple[str, str, int]]:
    """Return the session, state and step of each archival event."""
    events = [event["properties"] for event in recorder.of("compact.archival")]
    return [(event["session_id"], event["state"], event["step"]) for event in events]


@pytest.mark.req("S-STO-1", "A-ARC-1")
@pytest.mark.parametrize("kind", ["file", "database", "s3"])
def test_steps_continue_after_a_restart(kind: str, tmp_path: Path) -> None:
    """Three processes compact the same session. Files, events and summaries agree on the number."""
    bucket = Bucket()
    storages: dict[str, Callable[[], Any]] = {
        "file": lambda: FileStorage(tmp_path),
        "database": lambda: DatabaseStorage(lambda: sqlite3.connect(tmp_path / "archive.db")),
        "s3": lambda: S3Storage("bucket", client=bucket),
    }
    for number in (1, 2, 3):
        for tenant in TENANTS:
            recorder = Recorder()
            sent = compact(storages[kind](), recorder, tenant, number)
            assert archivals(recorder) == [(tenant, "stored", number)]
            assert recorder.last("compact.pruned_messages")["step"] == number
            assert any(message.text.startswith(f"<COMPACT-SUMMARY v{number}>") for message in sent)
            assert "S3_key" not in recorder.last("compact.archival") or kind == "s3"
    if kind == "file":
        names = [f"transcript-pre-compact-00{number}.jsonl" for number in (1, 2, 3)]
        assert sorted(file.name for file in (tmp_path / "acme").glob("transcript*")) == names
        assert json.loads((tmp_path / "acme/summary-003.json").read_text())["step"] == 3
        assert "globex" not in "".join(file.read_text() for file in (tmp_path / "acme").iterdir())


@pytest.mark.req("K-STO-1")
def test_a_conflict_on_the_server_moves_the_transcript_to_the_next_step(tmp_path: Path) -> None:
    """The event says `queued` first. It says `stored`, with the step that the server has, only after the answer."""
    with Archive() as archive:
        for number in (1, 2, 3):
            for tenant in TENANTS:
                recorder = Recorder()
                storage = AriadneStorage(archive.url, "key", spool_dir=tmp_path)
                compact(storage, recorder, tenant, number)
                assert archivals(recorder)[0][1] == "queued"
                assert storage.flush(10)
                eventually(lambda recorder=recorder: len(archivals(recorder)) == 2)
                assert archivals(recorder)[1] == (tenant, "stored", number)
                stored = recorder.last("compact.archival")
                assert archive.steps[tenant][number] == stored["sha256"] and "S3_key" not in stored
                assert recorder.of("compact.archival")[1]["parent_id"] == recorder.of("compact.check")[0]["span_id"]
                storage.close()
        assert {tenant: sorted(steps) for tenant, steps in archive.steps.items()} == {
            name: [1, 2, 3] for name in TENANTS
        }


@pytest.mark.req("K-STO-1")
def test_a_long_lived_storage_remembers_the_step_of_the_server(tmp_path: Path) -> None:
    """After a conflict, later compactions ask for the following step. The same content is sent as the same step."""
    with Archive() as archive:
        archive.steps["s"] = {1: "other", 2: "another"}
        storage = AriadneStorage(archive.url, "key", spool_dir=tmp_path)
        for text in ("first", "second", "second"):
            receipt = storage.save_transcript("s", [Message("user", text)], step=1)
            assert receipt["state"] == "queued" and storage.flush(10)
        storage.close()
        assert list(archive.steps["s"]) == [1, 2, 3, 4]
        assert [parse_qs(urlsplit(request.path).query)["step"] for request in archive.requests] == [
            ["1"],
            ["3"],
            ["4"],
            ["4"],
        ]


@pytest.mark.req("K-STO-1", "A-ARC-1")
def test_without_a_spool_the_result_is_stored_or_an_error() -> None:
    """The upload happens before anything is pruned, so the first event is the final one."""
    with Archive() as archive:
        archive.steps["acme"] = {1: "other"}
        recorder = Recorder()
        compact(AriadneStorage(archive.url, "key", spool_dir=None), recorder, "acme", 1)
        assert archivals(recorder) == [("acme", "stored", 2)]
        archive.status = 400
        recorder = Recorder()
        history = compact(AriadneStorage(archive.url, "key", spool_dir=None), recorder, "globex", 1)
        assert archivals(recorder) == [("globex", "failed", 1)]
        assert len(history) == 25 and not recorder.of("compact.pruned_messages")
        assert recorder.of("compact.archival")[0]["status"] == "error"


@pytest.mark.req("K-STO-1", "A-ARC-1")
def test_a_later_failure_is_an_error_on_the_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A queued transcript that the server rejects is reported, also by the next process."""
    with Archive() as archive:
        archive.status = 400
        recorder = Recorder()
        storage = AriadneStorage(archive.url, "key", spool_dir=tmp_path)
        compact(storage, recorder, "acme", 1)
        assert storage.flush(10)
        eventually(lambda: len(archivals(recorder)) == 2)
        assert archivals(recorder) == [("acme", "queued", 1), ("acme", "failed", 1)]
        failure = recorder.of("compact.archival")[1]
        assert (failure["status"], failure["properties"]["error"]) == ("error", "HTTP 400: not stored")
        storage.close()
    port = archive.port
    waiting = AriadneStorage(f"http://127.0.0.1:{port}", "key", spool_dir=tmp_path)
    waiting._pipeline.queue.close(1)
    lines = json.dumps({"session": "globex", "step": 1, "sha256": "0" * 64, "sender": "earlier"}).encode()
    from compact.delivery.segments import Record

    waiting._pipeline._spool.append(Record(lines + b"\nbody", 1))
    waiting.close(0.1)
    with Receiver(Answer(400, body={"error": "damaged"}), port=port) as receiver:
        recorder = Recorder()
        storage = AriadneStorage(receiver.url, "key", spool_dir=tmp_path)
        manager = CompactManager(CompactConfig("gpt-5", 3_000, storage=storage, exporter=recorder))
        eventually(lambda: archivals(recorder))
        assert archivals(recorder) == [("globex", "failed", 1)]
        assert manager.plan("globex") is None
        storage.close()


def test_nothing_is_pruned_if_a_required_archive_fails(tmp_path: Path) -> None:
    """The state is `failed`, and the reason is redacted. If the archive is optional, the messages are pruned."""

    class Broken:
        name = "broken"

        def save_transcript(self, session_id: str, transcript: Any) -> None:
            raise OSError("cannot write password: hunter2-Qz81")

        def save_summary(self, session_id: str, summary: Message, step: int) -> None: ...

        def save_event(self, session_id: str, event: dict[str, Any]) -> None: ...

    for is_required in (True, False):
        recorder = Recorder()
        sent = compact(Broken(), recorder, "acme", 1, archive_required=is_required)
        assert archivals(recorder) == [("acme", "failed", 1)]
        assert (len(sent) == 25) is is_required
        assert "hunter2" not in json.dumps(recorder.events)


@pytest.mark.req("A-ARC-1")
def test_a_compaction_that_runs_again_is_archived_once(tmp_path: Path) -> None:
    """A failing artifact store makes the compaction start over. The transcript is the same."""

    class Broken:
        def store(self, content: str, metadata: Any) -> str:
            raise OSError("full")

    from builders import tool_pair

    FileStorage(tmp_path).save_transcript("s", [Message("user", "from an earlier process")])
    recorder = Recorder()
    policy = CompactPolicy(
        hard_cap_buffer=100,
        keep_recent_turns=2,
        keep_tool_io_pairs=1,
        ladder=("externalize", "summarize"),
        externalize_threshold_tokens=200,
    )
    manager = CompactManager(
        CompactConfig(
            "gpt-5",
            3_000,
            policy=policy,
            storage=FileStorage(tmp_path),
            exporter=recorder,
            artifact_store=Broken(),
        )
    )
    history: list[dict[str, Any]] = [
        {"role": "user", "content": "go"},
        *tool_pair(1, "word " * 500),
        *tool_pair(2),
        *tool_pair(3),
    ]
    manager.manual_compact("s", [*history, *(message.to_dict() for message in chat_turns(8))])
    assert "compacted without externalizing" in str(recorder.of("compact.error"))
    assert archivals(recorder) == [("s", "stored", 2)]
    assert recorder.last("compact.pruned_messages")["step"] == 2
    assert len(list((tmp_path / "s").glob("transcript*"))) == 2


@pytest.mark.req("S-STO-1")
def test_an_overflow_recovery_is_archived_like_any_compaction(tmp_path: Path) -> None:
    """The auditor sees one transcript per compaction, whatever started it."""
    recorder = Recorder()
    policy = CompactPolicy(hard_cap_buffer=100, keep_recent_turns=2)
    storage = FileStorage(tmp_path)
    manager = CompactManager(CompactConfig("gpt-5", 8_000, policy=policy, storage=storage, exporter=recorder))
    history = [Message("user", "password: hunter2-Qz81"), *chat_turns(20)]
    prompt = manager.preflight("s", history)
    assert archivals(recorder) == []
    error = ValueError("context_length_exceeded: maximum context length is 1000 tokens, you requested 1900 tokens")
    assert len(manager.recover("s", prompt, error)) < len(prompt)
    assert archivals(recorder) == [("s", "stored", 1)]
    (file,) = (tmp_path / "s").glob("transcript*")
    assert len(file.read_text().splitlines()) == len(history) and "hunter2" not in file.read_text()
