"""Bodies on their way to the server, kept on disk until it has acknowledged them.

Every body is written here before it is sent, so that neither a server that is away nor the death of this process loses
it: the next process that opens the directory takes over the segments of the dead. Sending one twice is harmless, for
the server is idempotent. The size is capped; the oldest segment goes first and its events are counted.
"""

from __future__ import annotations

import itertools
import os
import struct
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

try:
    import fcntl
except ImportError:  # Windows: without locks two processes may send the same segment, which is harmless
    fcntl = None  # type: ignore[assignment]

_HEADER = struct.Struct(">4sII")
_MAGIC = b"CSP1"
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Record:
    """One body and the number of events in it."""

    body: bytes
    count: int


class Store(Protocol):
    """A queue of records. `append` returns how many events had to be let go to make room."""

    def append(self, record: Record) -> int: ...

    def peek(self) -> Record | None: ...

    def ack(self) -> None: ...

    @property
    def events(self) -> int: ...

    def close(self) -> None: ...


class MemorySpool:
    """The same queue where no directory can be written."""

    def __init__(self, *, max_bytes: int = 8 * 1024 * 1024) -> None:
        self._records: deque[Record] = deque()
        self._bytes = 0
        self._max_bytes = max_bytes

    def append(self, record: Record) -> int:
        self._records.append(record)
        self._bytes += len(record.body)
        dropped = 0
        while self._bytes > self._max_bytes and len(self._records) > 1:
            dropped += self._records[0].count
            self.ack()
        return dropped

    def peek(self) -> Record | None:
        return self._records[0] if self._records else None

    def ack(self) -> None:
        self._bytes -= len(self._records.popleft().body)

    @property
    def events(self) -> int:
        return sum(record.count for record in self._records)

    def close(self) -> None:
        self._records.clear()


@dataclass(slots=True)
class _Segment:
    path: Path
    file: BinaryIO
    size: int = 0
    # (offset of the body, its length, its events) of each record not yet acknowledged
    pending: deque[tuple[int, int, int]] = field(default_factory=deque)

    @property
    def events(self) -> int:
        return sum(count for _, _, count in self.pending)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.file.close()


class DiskSpool:
    """Segments of about a megabyte in one directory, each locked by the process that writes it."""

    def __init__(self, directory: Path, *, max_bytes: int, segment_bytes: int = 1024 * 1024) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._directory = directory
        self._max_bytes = max_bytes
        self._segment_bytes = min(segment_bytes, max(1, max_bytes // 4))
        self._segments: deque[_Segment] = deque()
        self._newest: tuple[tuple[Path, int], Record] | None = None
        self._adopt()
        self._writing: _Segment | None = None

    def append(self, record: Record) -> int:
        segment = self._writing
        if segment is None or segment.size >= self._segment_bytes:
            segment = self._writing = self._create()
            self._segments.append(segment)
        offset = segment.size + _HEADER.size
        segment.file.seek(segment.size)
        segment.file.write(_HEADER.pack(_MAGIC, len(record.body), record.count) + record.body)
        segment.size = offset + len(record.body)
        segment.pending.append((offset, len(record.body), record.count))
        # The usual record is sent at once: keep it, so that it need not be read back.
        self._newest = ((segment.path, offset), record)
        return self._make_room()

    def peek(self) -> Record | None:
        while self._segments:
            segment = self._segments[0]
            if not segment.pending:
                if segment is self._writing:
                    return None
                self._segments.popleft().remove()
                continue
            offset, length, count = segment.pending[0]
            if self._newest is not None and self._newest[0] == (segment.path, offset):
                return self._newest[1]
            segment.file.seek(offset)
            return Record(segment.file.read(length), count)
        return None

    def ack(self) -> None:
        segment = self._segments[0]
        segment.pending.popleft()
        if segment.pending:
            return
        self._newest = None
        if segment is self._writing:
            segment.file.truncate(0)
            segment.size = 0
        else:
            self._segments.popleft().remove()

    @property
    def events(self) -> int:
        return sum(segment.events for segment in self._segments)

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    def close(self) -> None:
        """Let go of the files; those with nothing left to send are removed."""
        for segment in self._segments:
            if segment.pending:
                segment.file.close()
            else:
                segment.remove()
        self._segments.clear()
        self._writing = None

    def _make_room(self) -> int:
        dropped = 0
        while self.size > self._max_bytes and len(self._segments) > 1:
            oldest = self._segments.popleft()
            dropped += oldest.events
            oldest.remove()
        return dropped

    def _create(self) -> _Segment:
        name = f"{time.time_ns():020d}-{os.getpid()}-{next(_numbers)}.spool"
        path = self._directory / name
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        segment = _Segment(path, os.fdopen(descriptor, "r+b", buffering=0))
        _lock(segment.file)
        return segment

    def _adopt(self) -> None:
        for path in sorted(self._directory.glob("*.spool")):
            try:
                file = path.open("r+b", buffering=0)
            except OSError:
                continue
            if not _lock(file):
                file.close()
                continue
            segment = _Segment(path, file, size=path.stat().st_size)
            _scan(segment)
            if segment.pending:
                self._segments.append(segment)
            else:
                segment.remove()


def _lock(file: BinaryIO) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _scan(segment: _Segment) -> None:
    """Find the whole records; a torn one at the end is what a dying process left behind."""
    position = 0
    while position + _HEADER.size <= segment.size:
        segment.file.seek(position)
        magic, length, count = _HEADER.unpack(segment.file.read(_HEADER.size))
        offset = position + _HEADER.size
        if magic != _MAGIC or offset + length > segment.size:
            return
        segment.pending.append((offset, length, count))
        position = offset + length
