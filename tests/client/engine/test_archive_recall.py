"""After a restart, a recall reads the archive: only what is proven to be of the conversation, and what is readable."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from typing import Any

import pytest
from builders import Recorder, small_manager
from compact import DatabaseStorage, FileStorage
from compact.adapters.plan_stores import FileCompactionStore
from recall_builders import SECRET, history, texts


@pytest.fixture(params=["fs", "database"])
def storage(request, tmp_path):
    if request.param == "fs":
        return lambda: FileStorage(tmp_path / "archive")
    return lambda: DatabaseStorage(lambda: sqlite3.connect(tmp_path / "archive.db"))


@pytest.mark.parametrize("has_plan_store", [True, False])
def test_after_a_restart_the_archive_is_searched(storage, tmp_path, has_plan_store):
    def start() -> Any:
        plans = FileCompactionStore(tmp_path / "plans") if has_plan_store else None
        return small_manager(storage=storage(), plan_store=plans)

    request = start().preflight("s", history(f"The order ORD-4471 ships from dock 12, key {SECRET}."))
    assert "dock 12" not in str(request[1:2])
    restarted = start()
    restarted.preflight("s", [*request, {"role": "user", "content": "Which dock?"}])
    passages = texts(restarted.recall("s", "ORD-4471"))
    assert "dock 12" in passages and SECRET not in passages


def test_after_a_restart_another_conversation_in_the_archive_is_never_found(storage):
    small_manager(storage=storage()).preflight("s", history("Alice's code is ALICE-4711."))
    manager = small_manager(storage=storage())
    manager.preflight("s", history("Bob's code is BOB-0815."))
    assert manager.recall("s", "ALICE-4711") == []
    request = manager.preflight("s", [*history("Bob's code is BOB-0815."), {"role": "user", "content": "Go on."}])
    third = small_manager(storage=storage())
    third.preflight("s", request)
    passages = texts(third.recall("s", "code ALICE-4711 BOB-0815"))
    assert "BOB-0815" in passages and "ALICE-4711" not in passages


@pytest.mark.parametrize("has_plan_store", [True, False])
def test_after_a_restart_messages_prove_whose_archive_is_searched(storage, tmp_path, has_plan_store):
    """No check has run yet in this process, so the given messages are all that is known."""

    def start() -> Any:
        plans = FileCompactionStore(tmp_path / "plans") if has_plan_store else None
        return small_manager(storage=storage(), plan_store=plans)

    alice, bob = history("Alice's code is ALICE-4711."), history("Bob's code is BOB-0815.", turns=3)
    request = start().preflight("s", alice)
    assert start().recall("s", "ALICE-4711", messages=bob) == []
    assert asyncio.run(start().arecall("s", "ALICE-4711", messages=bob)) == []
    assert "ALICE-4711" in texts(start().recall("s", "ALICE-4711", messages=request))


def test_before_the_first_message_of_a_process_the_newest_archived_conversation_is_the_session(storage):
    small_manager(storage=storage()).preflight("s", history("The order ORD-4471 ships from dock 12."))
    manager = small_manager(storage=storage())
    assert "dock 12" in texts(manager.recall("s", "ORD-4471"))
    manager.preflight("s", [{"role": "user", "content": "A new topic."}])
    assert manager.recall("s", "ORD-4471") == []


def test_an_archive_that_cannot_be_read_is_reported(tmp_path):
    class Broken(FileStorage):
        def load_transcripts(self, session_id: str) -> Any:
            raise OSError("disk gone")

    recorder = Recorder()
    manager = small_manager(recorder, storage=Broken(tmp_path))
    assert manager.recall("s", "ORD-4471") == []
    assert "disk gone" in recorder.last("compact.error")["message"]


@pytest.mark.parametrize("error", [OSError("disk gone"), KeyboardInterrupt()])
def test_an_archive_that_could_not_be_read_is_read_by_the_next_recall(tmp_path, error):
    class Flaky(FileStorage):
        errors = [error]

        def load_transcripts(self, session_id: str) -> Any:
            if self.errors:
                raise self.errors.pop()
            return super().load_transcripts(session_id)

    small_manager(storage=FileStorage(tmp_path)).preflight("s", history("The order ORD-4471 ships from dock 12."))
    manager = small_manager(storage=Flaky(tmp_path))
    with contextlib.suppress(KeyboardInterrupt):
        assert manager.recall("s", "ORD-4471") == []
    assert "dock 12" in texts(manager.recall("s", "ORD-4471"))


def test_an_archive_is_read_after_an_event_loop_that_ended_during_a_recall(tmp_path):
    class Slow(FileStorage):
        is_blocked = True

        async def load_transcripts(self, session_id: str) -> Any:
            started.set()
            if self.is_blocked:
                await asyncio.Event().wait()
            return super().load_transcripts(session_id)

    async def start_recall() -> None:
        task = asyncio.create_task(manager.arecall("s", "ORD-4471"))
        await asyncio.to_thread(started.wait, 30)
        assert not task.done()

    small_manager(storage=FileStorage(tmp_path)).preflight("s", history("The order ORD-4471 ships from dock 12."))
    started, storage = threading.Event(), Slow(tmp_path)
    manager = small_manager(storage=storage)
    asyncio.run(start_recall())
    storage.is_blocked = False
    assert "dock 12" in texts(asyncio.run(manager.arecall("s", "ORD-4471")))


@pytest.mark.parametrize("damaged", ["transcript-pre-compact-002.jsonl", "summary-002.json"])
def test_the_rest_of_a_damaged_archive_is_searched(tmp_path, damaged):
    """A file was cut in the middle, as by a full disk. What can be read is found, and the damage is reported."""
    messages = history("The order ORD-4471 ships from dock 12.")
    manager = small_manager(storage=FileStorage(tmp_path))
    manager.preflight("s", messages)
    manager.preflight("s", [*messages, *history("The order ORD-4472 ships from dock 13.")])
    file = tmp_path / "s" / damaged
    file.write_bytes(file.read_bytes()[:-200])
    recorder = Recorder()
    restarted = small_manager(recorder, storage=FileStorage(tmp_path))
    passages = texts(restarted.recall("s", "ORD-4471 ORD-4472"))
    assert "dock 12" in passages and "dock 13" in passages
    assert "The transcript of step 2 is corrupt" in recorder.last("compact.error")["message"]


@pytest.mark.parametrize("depth", [600, 200_000])
@pytest.mark.parametrize("damaged", ["transcript-pre-compact-001.jsonl", "summary-001.json"])
def test_a_deeply_nested_line_is_damage(tmp_path, damaged, depth):
    """Python's limit on recursion is reached by the JSON decoder, or by the code that reads the message."""
    small_manager(storage=FileStorage(tmp_path)).preflight("s", history("The order ORD-4471 ships from dock 12."))
    file, nested = tmp_path / "s" / damaged, "[" * depth + "]" * depth
    line = f'{{"role": "user", "content": {nested}}}'
    file.write_text(f"{line}\n{file.read_text()}" if damaged.endswith("l") else f'{{"summary": {line}}}')
    recorder = Recorder()
    restarted = small_manager(recorder, storage=FileStorage(tmp_path))
    assert "dock 12" in texts(restarted.recall("s", "ORD-4471"))
    assert "The transcript of step 1 is corrupt" in recorder.last("compact.error")["message"]


@pytest.mark.parametrize("has_plan_store", [True, False])
def test_a_secret_that_an_older_version_archived_is_redacted(tmp_path, has_plan_store):
    """The rules of an older version did not know this kind of secret, so its archive has it in plain text."""

    def start() -> Any:
        plans = FileCompactionStore(tmp_path / "plans") if has_plan_store else None
        return small_manager(storage=FileStorage(tmp_path / "archive"), plan_store=plans)

    request = start().preflight("s", history("The order ORD-4471 ships from dock 12, key PLACEHOLDER."))
    for file in (tmp_path / "archive" / "s").glob("transcript-*.jsonl"):
        file.write_text(file.read_text().replace("PLACEHOLDER", SECRET))
    messages = [] if has_plan_store else [*request, {"role": "user", "content": "Which dock?"}]
    passages = texts(start().recall("s", "ORD-4471 dock", messages=messages or None))
    assert "dock 12" in passages and SECRET not in passages
