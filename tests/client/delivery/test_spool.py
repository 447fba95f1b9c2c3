"""The spool keeps records on disk until they are removed, and shares a directory between processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from compact.delivery.counts import Counts
from compact.delivery.segments import Record
from compact.delivery.spool import Spool

OpenSpool = Callable[..., Spool]


@pytest.fixture
def open_spool() -> Iterator[OpenSpool]:
    with ExitStack() as stack:

        def open_spool(directory: Path | None, *, max_bytes: int = 1_000_000) -> Spool:
            spool = Spool(directory, max_bytes=max_bytes, counts=Counts())
            stack.callback(spool.close)
            return spool

        yield open_spool


def drain(spool: Spool) -> list[bytes]:
    bodies = []
    while records := spool.peek():
        bodies += [record.body for record in records]
        assert spool.remove(records)
    return bodies


@pytest.mark.parametrize("is_durable", [True, False])
def test_records_are_returned_in_order(open_spool: OpenSpool, tmp_path: Path, is_durable: bool) -> None:
    """Records leave in the order in which they were appended."""
    spool = open_spool(tmp_path if is_durable else None)
    for number in range(5):
        spool.append(Record(b"%d" % number, 2))
    assert spool.pending == 10
    assert drain(spool) == [b"0", b"1", b"2", b"3", b"4"]
    assert spool.pending == 0


def test_next_spool_adopts_unsent_records(open_spool: OpenSpool, tmp_path: Path) -> None:
    """Records that were not removed are available to the next spool of the directory."""
    first = open_spool(tmp_path)
    first.append(Record(b"sent", 1))
    first.append(Record(b"unsent", 1))
    assert first.remove(first.peek())
    assert first.close() == (1, 0)
    # An acknowledged record is only forgotten with its segment: sending it again is harmless.
    assert drain(open_spool(tmp_path)) == [b"sent", b"unsent"]
    assert drain(open_spool(tmp_path)) == []


def test_two_spools_share_a_directory(open_spool: OpenSpool, tmp_path: Path) -> None:
    """A spool does not adopt the records of another one that is still open."""
    first, second = open_spool(tmp_path), open_spool(tmp_path)
    first.append(Record(b"first", 1))
    second.append(Record(b"second", 1))
    assert drain(open_spool(tmp_path)) == []
    assert (drain(first), drain(second)) == ([b"first"], [b"second"])


def test_partial_record_is_ignored(open_spool: OpenSpool, tmp_path: Path) -> None:
    """A record that was being written when its process died is skipped. The complete ones are kept."""
    spool = open_spool(tmp_path)
    spool.append(Record(b"complete", 1))
    spool.append(Record(b"partial", 1))
    spool.close()
    (segment,) = tmp_path.glob("*.spool2")
    segment.write_bytes(segment.read_bytes()[:-3])
    assert drain(open_spool(tmp_path)) == [b"complete"]


@pytest.mark.parametrize("is_durable", [True, False])
def test_acknowledging_a_dropped_record_removes_nothing(
    open_spool: OpenSpool, tmp_path: Path, is_durable: bool
) -> None:
    """If the size limit drops a record while it is being sent, the acknowledgment removes no other record."""
    spool = open_spool(tmp_path if is_durable else None, max_bytes=4_000)
    body = b"x" * (3_000 if is_durable else 5 * 1024 * 1024)
    spool.append(Record(body, 1))
    in_flight = spool.peek()
    spool.append(Record(body + b"2", 1))
    assert not spool.remove(in_flight)
    assert drain(spool) == [body + b"2"]
