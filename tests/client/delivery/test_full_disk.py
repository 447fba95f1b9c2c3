"""While the disk is full, events wait in memory. They return to the disk as soon as there is room."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from compact.adapters import AriadneStorage
from compact.delivery.counts import Counts
from compact.delivery.segments import Record
from compact.delivery.spool import Spool
from compact.exceptions import CompactError
from compact.exporters import AriadneExporter
from compact.messages import Message
from ports import reserve_port
from receiver import Receiver, eventually


def event(number: int) -> dict[str, Any]:
    payload = {"text": os.urandom(1_000).hex()}
    return {"event": "compact.check", "session_id": "s", "trace_id": "t", "span_id": str(number), "payload": payload}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Write a file that leaves no room."""
    path = folder / "other-program"
    with path.open("wb", buffering=0) as file:
        while True:
            try:
                if file.write(bytes(4096)) < 4096:
                    return path
            except OSError:
                return path


@pytest.mark.req("A-FLT-2")
def test_events_return_to_the_disk_when_there_is_room(small_disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is lost before, during and after a full disk, and `flush` is not True while something waits."""
    with reserve_port() as port:
        url = f"http://127.0.0.1:{port}"
        exporter = AriadneExporter(url, "key", spool_dir=small_disk, max_batch=20, max_backoff_s=0.05)
        for number in range(100):
            exporter.emit(event(number))
        eventually(lambda: exporter.stats()["spooled"] == 100)
        other_program = fill(small_disk)
        for number in range(100, 400):
            exporter.emit(event(number))
        eventually(lambda: exporter.stats()["spooled"] == 400)
        assert not exporter._pipeline.is_durable  # type: ignore[union-attr]
        assert not exporter.flush(0.1)
        other_program.unlink()
        eventually(lambda: exporter._pipeline.is_durable)  # type: ignore[union-attr]
        exporter.close(30)
        with Receiver(port=port) as receiver:
            later = AriadneExporter(url, "key", spool_dir=small_disk)
            assert later.flush(60)
            later.close()
            sent = [one["span_id"] for one in receiver.events]
    assert sorted(sent, key=int) == [str(number) for number in range(400)]
    log = capsys.readouterr().err
    assert log.count("Cannot write to the spool") == log.count("can be written again") == 1
    assert not list(small_disk.rglob("*.damaged"))


@pytest.mark.req("A-FLT-2")
def test_flush_waits_for_what_was_on_disk_before_it_was_full(small_disk: Path) -> None:
    """Events on disk and in memory are both sent by the process that has them."""
    with reserve_port() as port:
        exporter = AriadneExporter(f"http://127.0.0.1:{port}", "key", spool_dir=small_disk, max_backoff_s=0.05)
        for number in range(100):
            exporter.emit(event(number))
        eventually(lambda: exporter.stats()["spooled"] == 100)
        fill(small_disk)
        for number in range(100, 200):
            exporter.emit(event(number))
        eventually(lambda: exporter.stats()["spooled"] == 200)
        with Receiver(port=port) as receiver:
            assert exporter.flush(60)
            assert sorted((one["span_id"] for one in receiver.events), key=int) == [str(n) for n in range(200)]
            exporter.close()


@pytest.mark.req("A-FLT-2")
def test_events_that_are_lost_with_a_full_disk_are_counted(
    small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the end of the process, memory is lost. The line and the count say how much."""
    fill(small_disk)
    exporter = AriadneExporter("http://127.0.0.1:1", "key", spool_dir=small_disk)
    for number in range(50):
        exporter.emit(event(number))
    eventually(lambda: exporter.stats()["spooled"] == 50)
    exporter.close(30)
    assert exporter.stats()["dropped"] == 50
    assert "50 events could not be sent to http://127.0.0.1:1/ingest and are lost." in capsys.readouterr().err


def test_a_transcript_is_not_called_queued_while_the_disk_is_full(small_disk: Path) -> None:
    """Without another copy, the caller must know. A transcript that the server has stored is fine."""
    with reserve_port() as port:
        fill(small_disk)
        storage = AriadneStorage(f"http://127.0.0.1:{port}", "key", spool_dir=small_disk, exit_timeout_s=0.2)
        with pytest.raises(CompactError, match="could not be archived on the server"):
            storage.save_transcript("acme", [Message("user", "hello")])
        with Receiver(port=port):
            eventually(lambda: storage.flush(1))
            assert storage.save_transcript("acme", [Message("user", "hello again")])["state"] == "stored"
            storage.close()


LIMITED = """
import os, resource, sys
from compact.delivery.counts import Counts
from compact.delivery.segments import Record
from compact.delivery.spool import Spool
spool = Spool(__import__("pathlib").Path(sys.argv[1]), max_bytes=1_000_000, counts=Counts())
spool.append(Record(b"a" * 500, 1))
resource.setrlimit(resource.RLIMIT_FSIZE, (800, resource.RLIM_INFINITY))
spool.append(Record(b"b" * 500, 1))
assert (spool.pending, spool.is_durable) == (2, False)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
while not spool.is_durable:
    spool.peek()
os.kill(os.getpid(), 9)
"""


@pytest.mark.req("A-FLT-2")
def test_half_a_record_is_not_left_on_a_full_disk(tmp_path: Path) -> None:
    """A write that succeeds in part is undone, so the file is intact when there is room again."""
    result = subprocess.run([sys.executable, "-c", LIMITED, str(tmp_path)], timeout=60, check=False)
    assert result.returncode == -signal.SIGKILL
    counts = Counts()
    spool = Spool(tmp_path, max_bytes=1_000_000, counts=counts)
    records: list[Record] = []
    while batch := spool.peek():
        records += batch
        spool.remove(batch)
    spool.close()
    assert ([record.body[:1] for record in records], counts.damaged) == ([b"a", b"b"], 0)
