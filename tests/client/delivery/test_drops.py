"""Every dropped event is in a report, also if the process that dropped it has died."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from compact.delivery.counts import Counts
from compact.delivery.drops import Drops
from compact.delivery.segments import Record
from compact.delivery.spool import Spool
from compact.exporters import AriadneExporter
from ports import reserve_port
from receiver import Answer, Receiver, Request, eventually


def event(sender: str, number: int) -> dict[str, Any]:
    payload = {"text": os.urandom(200).hex()}
    ids = {"session_id": sender, "trace_id": sender, "span_id": f"{sender}-{number}"}
    return {"event": "compact.check", **ids, "payload": payload}


def count_stored(receiver: Receiver) -> tuple[int, int]:
    """Return the numbers of events and of reported drops on a server that counts each id once."""
    spans = {one["span_id"]: one for one in receiver.events}
    reports = [one["properties"]["count"] for one in spans.values() if one["kind"] == "compact.warning"]
    return len(spans) - len(reports), sum(reports)


@pytest.mark.req("A-FLT-2")
def test_reports_add_up_to_what_was_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An outage with many times more events than the spool holds: what arrives and what is reported is everything."""
    with reserve_port() as port:
        exporter = AriadneExporter(
            f"http://127.0.0.1:{port}",
            "key",
            spool_dir=tmp_path,
            spool_bytes=100_000,
            max_queue=500,
            max_backoff_s=0.05,
        )
        for number in range(5_000):
            exporter.emit(event("s", number))
        eventually(lambda: not exporter.stats()["queued"])
        with Receiver(port=port) as receiver:
            assert exporter.flush(60)
            arrived, reported = count_stored(receiver)
            exporter.close()
    assert reported == exporter.stats()["dropped"] > 2_000
    assert arrived + reported == 5_000
    assert f"{reported:,} events were dropped so far" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.drops"))


PROGRAM = """
import os, sys
from compact.exporters import AriadneExporter
url, spool, sender = sys.argv[1:]
exporter = AriadneExporter(url, "key", spool_dir=spool, spool_bytes=20_000)
for number in range(1_000):
    ids = {"session_id": sender, "trace_id": sender, "span_id": f"{sender}-{number}"}
    exporter.emit({"event": "compact.check", **ids, "payload": {"text": os.urandom(200).hex()}})
def is_saved():
    stats = exporter.stats()
    return stats["spooled"] + stats["dropped"] >= 1_000 and exporter._pipeline._drops._saved == stats["dropped"]
while not is_saved():
    exporter.flush(0.01)
os.kill(os.getpid(), 9)
"""


@pytest.mark.req("A-FLT-2")
def test_the_drops_of_killed_processes_are_reported(tmp_path: Path) -> None:
    """Three processes share a spool and are killed after they dropped events. The next one knows the numbers."""
    with reserve_port() as port:
        url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-c", PROGRAM, url, str(tmp_path)]
        children = [subprocess.Popen([*command, sender]) for sender in "abc"]
        for child in children:
            assert child.wait(120) == -9
        with Receiver(port=port) as receiver:
            exporter = AriadneExporter(url, "key", spool_dir=tmp_path)
            assert exporter.flush(60)
            exporter.close()
            assert sum(count_stored(receiver)) == 3_000
            sessions = {one["session_id"] for one in receiver.events if one["kind"] == "compact.warning"}
    assert sessions <= {"a", "b", "c"} and sessions
    assert not list(tmp_path.rglob("*.drops"))


class LosesFirstReport(Receiver):
    """Stores the first report of drops, and loses the answer."""

    lost = 0

    def answer(self, request: Request) -> Answer:
        if any(one["kind"] == "compact.warning" for one in request.events) and not self.lost:
            self.lost += 1
            return Answer(502, content=b"")
        return Answer()


@pytest.mark.req("A-FLT-2")
def test_a_report_whose_answer_was_lost_is_counted_once(tmp_path: Path) -> None:
    """It is sent again with the same id, also if more events were dropped since."""
    with LosesFirstReport() as receiver:
        exporter = AriadneExporter(receiver.url, "key", spool_dir=tmp_path, max_backoff_s=0.05)
        for number in range(10):
            exporter.emit(event("s", number))
        exporter._pipeline.drop("s")  # type: ignore[union-attr]
        assert not exporter.flush(0)
        eventually(lambda: receiver.lost)
        exporter._pipeline.drop("s")  # type: ignore[union-attr]
        assert exporter.flush(60)
        assert count_stored(receiver) == (10, 2)
        reports = [one for one in receiver.events if one["kind"] == "compact.warning"]
        assert len(reports) >= 2
        exporter.close()


def test_a_drop_file_without_a_number_is_removed(tmp_path: Path) -> None:
    """Its process died before it wrote one. Files of live processes stay."""
    (tmp_path / "1-ab.drops").write_bytes(b"")
    counts = Counts()
    drops, other = Drops(tmp_path, counts, noun="event"), Drops(tmp_path, Counts(), noun="event")
    counts.drop(3)
    drops.save()
    other.adopt()
    assert other.next_report() is None
    assert len(list(tmp_path.glob("*.drops"))) == 1
    drops.close()
    other.adopt()
    report = other.next_report()
    assert report is not None and report.count == 3
    other.confirm(report)
    assert not list(tmp_path.iterdir())


def test_a_batch_of_a_slow_worker_is_kept(tmp_path: Path) -> None:
    """A worker that is still encoding when the process ends writes its batch for the next process."""
    counts = Counts()
    spool = Spool(tmp_path, max_bytes=10_000, counts=counts)
    spool.close()
    spool.append(Record(b"late", 3))
    later = Spool(tmp_path, max_bytes=10_000, counts=counts)
    assert later.peek() == [Record(b"late", 3)]
    later.close()
    without_disk = Spool(None, max_bytes=10_000, counts=counts)
    without_disk.close()
    without_disk.append(Record(b"late", 3))
    assert counts.dropped == 3


def test_a_late_event_is_counted_and_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An event after `close` is dropped. One line says so."""
    exporter = AriadneExporter("http://127.0.0.1:1", "key", spool_dir=tmp_path)
    exporter.close()
    exporter.emit(event("s", 1))
    exporter.emit(event("s", 2))
    assert exporter.stats()["dropped"] == 2
    assert capsys.readouterr().err.count("after the exporter was closed") == 1


def test_the_clock_may_jump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither waiting nor file names depend on it."""
    clock = {"ns": 0}

    def jump() -> int:
        clock["ns"] = -clock["ns"] + (10**18 if clock["ns"] <= 0 else -(10**9))
        return clock["ns"]

    monkeypatch.setattr(time, "time_ns", jump)
    monkeypatch.setattr(time, "time", lambda: jump() / 1e9)
    with Receiver(Answer(503), Answer(503), Answer()) as receiver:
        senders = [AriadneExporter(receiver.url, "key", spool_dir=tmp_path, max_backoff_s=0.05) for _ in range(3)]
        for number in range(300):
            senders[number % 3].emit(event("s", number))
        assert all(sender.flush(60) for sender in senders)
        for sender in senders:
            sender.close()
        assert count_stored(receiver) == (300, 0)
    assert not list(tmp_path.rglob("*.spool2"))
