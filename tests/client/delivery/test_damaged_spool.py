"""A damaged spool file loses only what is damaged, and says how much that is."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from compact.delivery.counts import Counts
from compact.delivery.segments import Record, scan
from compact.delivery.spool import Spool
from compact.exporters import AriadneExporter
from ports import reserve_port
from receiver import Receiver, eventually

RECORDS, EVENTS = 40, 100
Damage = Callable[[bytes], bytes]


def body(number: int) -> bytes:
    """Return a body as exporters write it, with `EVENTS` events."""
    events = [{"event": "compact.check", "session_id": "s", "span_id": f"{number}-{n}"} for n in range(EVENTS)]
    return gzip.compress(json.dumps({"batch": events}, separators=(",", ":")).encode(), 1, mtime=0)


def write_segment(folder: Path) -> Path:
    """Leave a segment file as a process that was killed does."""
    spool = Spool(folder, max_bytes=10_000_000, counts=Counts())
    for number in range(RECORDS):
        spool.append(Record(body(number), EVENTS))
    spool.close()
    (path,) = folder.glob("*.spool2")
    return path


def write_old_segment(folder: Path) -> Path:
    """Write the file of an earlier version, whose records have no checksum of their own."""
    path = folder / "00000000001795000000-1-0.spool"
    records = [struct.pack(">4sII", b"CSP1", len(body(n)), EVENTS) + body(n) for n in range(RECORDS)]
    path.write_bytes(b"".join(records))
    return path


def drain(spool: Spool) -> list[bytes]:
    bodies = []
    while records := spool.peek():
        bodies += [record.body for record in records]
        assert spool.remove(records)
    return bodies


def flip(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 0x40]) + data[position + 1 :]


# What happens to the file, how many records that costs at most, and the count of damage that hit no record.
DAMAGE: dict[str, tuple[Damage, int, int]] = {
    "one byte in the middle": (lambda data: flip(data, len(data) // 2), 1, 0),
    "first magic": (lambda data: flip(data, 0), 1, 0),
    "length of the first record": (lambda data: flip(data, 4), 1, 0),
    "garbage before everything": (lambda data: b"CSP2 garbage CSP1" + data, 0, 0),
    "last record cut off": (lambda data: data[:-3], 1, 0),
    "zeros at the end": (lambda data: data + bytes(4096), 0, 1),
    "a block of zeros": (lambda data: data[:1000] + bytes(4096) + data[5096:], 16, 0),
}


@pytest.mark.req("A-FLT-2")
@pytest.mark.parametrize("write", [write_segment, write_old_segment])
@pytest.mark.parametrize("kind", DAMAGE)
def test_intact_records_of_a_damaged_file_are_kept(
    write: Callable[[Path], Path], kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The intact records are read in order. The file is set aside unchanged, and one line says what is lost."""
    path = write(tmp_path)
    damage, most_lost, at_end = DAMAGE[kind]
    damaged = damage(path.read_bytes())
    path.write_bytes(damaged)
    counts = Counts()
    spool = Spool(tmp_path, max_bytes=10_000_000, counts=counts)
    bodies = drain(spool)
    expected = [body(number) for number in range(RECORDS)]
    assert [one for one in expected if one in bodies] == bodies
    assert len(bodies) >= RECORDS - most_lost
    lost = (RECORDS - len(bodies)) * EVENTS
    if write is write_segment:
        assert counts.damaged == (lost or at_end)
    else:
        # Without the numbers in the headers, only a part of the loss is known.
        assert counts.damaged >= 1
    spool.close()
    (kept,) = tmp_path.iterdir()
    assert (kept.suffix, kept.read_bytes()) == (".damaged", damaged)
    assert capsys.readouterr().err.count("is damaged") == 1
    assert drain(Spool(tmp_path, max_bytes=10_000_000, counts=counts)) == []


def test_every_single_wrong_byte_costs_one_record(tmp_path: Path) -> None:
    """Wherever it is, all other records are found, and the number of lost events is exact."""
    spool = Spool(tmp_path, max_bytes=10_000, counts=Counts())
    for number in range(4):
        spool.append(Record(b"record CSP2 %d" % number, 10 + number))
    spool.close()
    (path,) = tmp_path.glob("*.spool2")
    data = path.read_bytes()
    for position in range(len(data)):
        content = scan(flip(data, position))
        assert len(content.records) == 3
        if position < len(data) * 3 // 4:
            assert sum(record.count for record in content.records) + content.damaged_events == 10 + 11 + 12 + 13
        assert content.damaged_events >= 1


@pytest.mark.req("A-FLT-2")
def test_events_of_a_damaged_file_reach_the_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Intact records arrive once, and the rest is in the statistics and in the line on stderr."""
    with reserve_port() as port:
        first = AriadneExporter(f"http://127.0.0.1:{port}", "key", spool_dir=tmp_path, max_batch=EVENTS)
        for number in range(4_000):
            first.emit({"event": "compact.check", "session_id": "s", "trace_id": "t", "span_id": str(number)})
        eventually(lambda: first.stats()["spooled"] == 4_000)
        first.close(30)
        (path,) = tmp_path.rglob("*.spool2")
        path.write_bytes(flip(path.read_bytes(), path.stat().st_size // 2))
        with Receiver(port=port) as receiver:
            second = AriadneExporter(receiver.url, "key", spool_dir=tmp_path)
            assert second.flush(60)
            stats = second.stats()
            second.close()
            arrived = {event["span_id"] for event in receiver.events}
    assert len(arrived) == len(receiver.events) == stats["sent"] == 4_000 - stats["damaged"]
    assert 0 < stats["damaged"] <= EVENTS
    assert f"At least {stats['damaged']} are lost" in capsys.readouterr().err


def test_files_of_an_earlier_version_are_sent(tmp_path: Path) -> None:
    """Nothing in them is lost, and they are deleted afterwards."""
    write_old_segment(tmp_path)
    counts = Counts()
    spool = Spool(tmp_path, max_bytes=10_000_000, counts=counts)
    assert drain(spool) == [body(number) for number in range(RECORDS)]
    spool.close()
    assert (counts.damaged, list(tmp_path.iterdir())) == (0, [])
