"""Queues of records, in memory and on disk.

The disk store appends to segment files, each locked by the process that writes it. An SQLite table took 2 to 5 times
the CPU time per body and 10 times as long to open, and an SQLite connection must not be carried across a fork.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from compact.delivery import segments
from compact.delivery.counts import Counts
from compact.delivery.segments import Record, Segment
from compact.delivery.stderr import log_problem

# A full spool drops its oldest segment as a whole, so a segment must not have many events.
_SEGMENT_BYTES = 1024 * 1024
_MEMORY_BYTES = 8 * 1024 * 1024
# The compressed bytes of small records that are sent together.
_BATCH_BYTES = 64 * 1024


class MemoryStore:
    """Records in memory."""

    def __init__(self, *, max_bytes: int = _MEMORY_BYTES) -> None:
        self._records: deque[Record] = deque()
        self._bytes = 0
        self._max_bytes = max_bytes

    def append(self, record: Record) -> int:
        """Add a record. Return the number of events that were dropped to make room."""
        self._records.append(record)
        self._bytes += len(record.body)
        dropped = 0
        while self._bytes > self._max_bytes and len(self._records) > 1:
            dropped += self._pop().count
        return dropped

    def peek(self, max_events: int) -> list[Record]:
        """Return the oldest record, and those after it that are sent with it."""
        return list(islice(self._records, _batch_length(self._records, max_events)))

    def remove(self, records: list[Record]) -> bool:
        """Remove the first of the records that `peek` returned. Return False if one was dropped or moved since."""
        if len(records) > len(self._records) or any(a is not b for a, b in zip(records, self._records, strict=False)):
            return False
        for _ in records:
            self._pop()
        return True

    @property
    def events(self) -> int:
        # A copy, because `stats` reads this without the lock while the worker changes it.
        return sum(record.count for record in list(self._records))

    @property
    def size(self) -> int:
        return self._bytes

    def _pop(self) -> Record:
        record = self._records.popleft()
        self._bytes -= len(record.body)
        return record


class DiskStore:
    """Segment files of about a megabyte in one directory. The last segment is the one being written."""

    def __init__(self, directory: Path, *, max_bytes: int, counts: Counts) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._directory = directory
        self._max_bytes = max_bytes
        self._counts = counts
        self._segment_bytes = min(_SEGMENT_BYTES, max(1, max_bytes // 4))
        self._segments: deque[Segment] = deque()
        self._active: Segment | None = None
        # The first records, cached so that a record that is sent immediately is not read back from disk.
        self._first: list[Record] = []

    def adopt(self) -> None:
        """Take over the segments of dead processes. Call it while no record is being sent."""
        adopted = [segment for orphan in segments.orphans(self._directory) if (segment := self._check(orphan))]
        self._segments.extendleft(reversed(adopted))
        self._first = []
        self._counts.drop(self._make_room())

    def append(self, record: Record) -> int:
        """Add a record. Return the number of events that were dropped to make room."""
        segment = self._active
        if segment is None or segment.size >= self._segment_bytes:
            segment = self._active = Segment.create(self._directory)
            self._segments.append(segment)
        segment.append(record)
        if segment is self._segments[0] and len(segment.pending) == 1:
            self._first = [record]
        return self._make_room()

    def peek(self, max_events: int) -> list[Record]:
        """Return the oldest record, and those after it that are sent with it."""
        while self._segments and self._segments[0].pending:
            segment = self._segments[0]
            length = _batch_length(segment.pending, max_events)
            if len(self._first) == length:
                return self._first
            try:
                self._first = [segment.read(position) for position in islice(segment.pending, length)]
            except OSError as error:
                self._segments.popleft()
                self._active = None if segment is self._active else self._active
                self._set_aside(segment, f"could not be read ({error.strerror})", segment.events)
            else:
                return self._first
        return []

    def remove(self, records: list[Record]) -> bool:
        """Remove the first of the records that `peek` returned. Return False if they were dropped since."""
        # While they were sent, the spool may have dropped them to make room. Other ones are first then.
        if not self._first or self._first[0] is not records[0]:
            return False
        self._first = []
        segment = self._segments[0]
        for _ in records:
            segment.pending.popleft()
        if segment.pending:
            return True
        # While the server keeps up, this happens after each record, so the file and its lock are kept.
        if segment is self._active:
            segment.clear()
        else:
            self._segments.popleft().dispose()
        return True

    @property
    def events(self) -> int:
        return sum(segment.events for segment in list(self._segments))

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    def sync(self) -> None:
        """Write everything to the disk, so that it survives a power failure."""
        if self._active is None:
            return
        os.fsync(self._active.file.fileno())
        # A new file can be lost with its content as long as only its directory knows its name.
        directory = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def close(self) -> None:
        """Close the files and delete those that are empty."""
        for segment in self._segments:
            if segment.pending:
                segment.file.close()
            else:
                segment.dispose()
        self._segments.clear()
        self._active = None
        self._first = []

    def abandon(self) -> None:
        """Close the files of a parent process and change none of them."""
        for segment in list(self._segments):
            segment.file.close()

    def _check(self, segment: Segment) -> Segment | None:
        """Return an adopted segment with its intact records, or None if it has none."""
        try:
            content = segments.scan(segment.file.read())
        except OSError as error:
            self._set_aside(segment, f"could not be read ({error.strerror})", 0)
            return None
        segment.pending.extend(content.records)
        if content.damaged_bytes:
            segment.is_damaged = True
            self._counts.damaged += content.damaged_events
            log_problem(
                "Ariadne",
                f"The spool file {segment.path} is damaged. {segment.events:,} events in it are intact and will be "
                f"sent. At least {content.damaged_events:,} are lost. The file is then kept as "
                f"{segment.damaged_path.name}.",
            )
        if segment.pending:
            return segment
        segment.dispose()
        return None

    def _set_aside(self, segment: Segment, problem: str, events: int) -> None:
        """Rename a file that the disk does not return, and count its events."""
        segment.is_damaged = True
        self._counts.damaged += max(1, events)
        log_problem(
            "Ariadne",
            f"The spool file {segment.path} {problem}. At least {max(1, events):,} events in it are not sent. "
            f"The file is kept as {segment.damaged_path.name}.",
        )
        segment.dispose()

    def _make_room(self) -> int:
        dropped = 0
        while len(self._segments) > 1 and self.size > self._max_bytes:
            oldest = self._segments.popleft()
            dropped += oldest.events
            oldest.dispose()
            self._first = []
        return dropped


def _batch_length(records: Iterable[Record | segments.Position], max_events: int) -> int:
    """Return how many of the first records are sent together: at least one, and more if they are small."""
    events = size = length = 0
    for record in records:
        events += record.count
        size += len(record.body) if isinstance(record, Record) else record.length
        if length and (events > max_events or size > _BATCH_BYTES):
            break
        length += 1
    return length
