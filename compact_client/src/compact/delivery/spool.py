"""Queue of encoded bodies that survives the process.

Every body is written here before it is sent and removed when the server has acknowledged it. If the server is
unreachable or this process dies, the next process that opens the directory sends what is left. Sending a body twice
is harmless because the server is idempotent. The size is limited: the oldest bodies are dropped first and counted.

Bodies are appended to segment files, each locked by the process that writes it. An SQLite table took 2 to 5 times the
CPU time per body and 10 times as long to open, and an SQLite connection must not be carried across a fork.
"""

from __future__ import annotations

import errno
import itertools
import os
import struct
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from compact.delivery.counts import Counts
from compact.delivery.stderr import log_problem

try:
    import fcntl
except ImportError:  # Windows: without locks, two processes may send the same segment, which is harmless.
    fcntl = None  # type: ignore[assignment]

_HEADER = struct.Struct(">4sII")
_MAGIC = b"CSP1"
# A full spool drops its oldest segment as a whole, so a segment must not have many events.
_SEGMENT_BYTES = 1024 * 1024
_MEMORY_BYTES = 8 * 1024 * 1024
_segment_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Record:
    """One body and the number of events in it."""

    body: bytes
    count: int


class Spool:
    """A thread-safe queue of records on disk, or in memory if there is no usable directory."""

    _store: Store

    def __init__(self, directory: Path | None, *, max_bytes: int, counts: Counts) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._counts = counts
        self.reset()

    def reset(self) -> None:
        """Open the store again, as a forked child must. The parent keeps sending its own records."""
        self._lock = threading.Lock()
        # Drop the parent's store without closing it, because closing deletes its empty files.
        self._store = MemoryStore()
        self._store = self._open()

    @property
    def is_durable(self) -> bool:
        """True if records survive the process."""
        return self._directory is not None

    @property
    def pending(self) -> int:
        """Number of events in the queue."""
        return self._store.events

    def append(self, record: Record) -> None:
        """Add a record. Drop the oldest ones if the queue is over its limit."""
        with self._lock:
            try:
                dropped = self._store.append(record)
            except OSError as error:
                self._fall_back(f"Cannot write to the spool {self._directory} ({error.strerror})")
                dropped = self._store.append(record)
        self._counts.dropped += dropped

    def has_room(self, record: Record) -> bool:
        """True if a record fits without dropping another one."""
        with self._lock:
            return self._store.size + len(record.body) <= self._max_bytes

    def sync(self) -> None:
        """Write everything to the disk, so that it survives a power failure."""
        with self._lock:
            try:
                self._store.sync()
            except OSError as error:
                self._fall_back(f"Cannot write to the spool {self._directory} ({error.strerror})")

    def peek(self) -> Record | None:
        """Return the oldest record without removing it."""
        with self._lock:
            try:
                return self._store.peek()
            except OSError as error:
                self._fall_back(f"Cannot read the spool {self._directory} ({error.strerror})")
                return None

    def remove(self, record: Record) -> bool:
        """Remove the record that `peek` returned. Return False if it was dropped or the spool closed since."""
        with self._lock:
            try:
                return self._store.remove(record)
            except OSError as error:
                self._fall_back(f"Cannot write to the spool {self._directory} ({error.strerror})")
                return True

    def close(self) -> int:
        """Close the files and return the number of events that were not sent."""
        with self._lock:
            pending = self._store.events
            self._store.close()
            self._store = MemoryStore()
        return pending

    def _open(self) -> Store:
        if self._directory is None:
            return MemoryStore()
        try:
            return DiskStore(self._directory, max_bytes=self._max_bytes)
        except OSError as error:
            self._fall_back(f"Cannot open the spool {self._directory} ({error.strerror})")
            return self._store

    def _fall_back(self, problem: str) -> None:
        log_problem("Ariadne", f"{problem}. New data is kept in memory only.")
        self._directory = None
        # Closing releases the locks, so that another process can send what is on disk.
        self._store.close()
        self._store = MemoryStore()


class Store(Protocol):
    """A queue of records. `append` returns the number of events dropped to make room."""

    def append(self, record: Record) -> int: ...

    def peek(self) -> Record | None: ...

    def remove(self, record: Record) -> bool: ...

    @property
    def events(self) -> int: ...

    @property
    def size(self) -> int: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class MemoryStore:
    """Records in memory."""

    def __init__(self, *, max_bytes: int = _MEMORY_BYTES) -> None:
        self._records: deque[Record] = deque()
        self._bytes = 0
        self._max_bytes = max_bytes

    def append(self, record: Record) -> int:
        self._records.append(record)
        self._bytes += len(record.body)
        dropped = 0
        while self._bytes > self._max_bytes and len(self._records) > 1:
            dropped += self._pop().count
        return dropped

    def peek(self) -> Record | None:
        return self._records[0] if self._records else None

    def remove(self, record: Record) -> bool:
        if self.peek() is not record:
            return False
        self._pop()
        return True

    @property
    def events(self) -> int:
        # A copy, because `stats` reads this without the lock while the worker changes it.
        return sum(record.count for record in list(self._records))

    @property
    def size(self) -> int:
        return self._bytes

    def sync(self) -> None:
        """Do nothing: memory does not survive the process."""

    def close(self) -> None:
        self._records.clear()

    def _pop(self) -> Record:
        record = self._records.popleft()
        self._bytes -= len(record.body)
        return record


@dataclass(slots=True)
class _Segment:
    path: Path
    file: BinaryIO
    size: int = 0
    # Offset, length and event count of each body that is not acknowledged yet.
    pending: deque[tuple[int, int, int]] = field(default_factory=deque)

    @property
    def events(self) -> int:
        return sum(count for _, _, count in list(self.pending))

    def append(self, record: Record) -> None:
        data = _HEADER.pack(_MAGIC, len(record.body), record.count) + record.body
        self.file.seek(self.size)
        # On a full disk, the first write may succeed in part.
        if self.file.write(data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        offset = self.size + _HEADER.size
        self.size = offset + len(record.body)
        self.pending.append((offset, len(record.body), record.count))

    def read_first(self) -> Record:
        offset, length, count = self.pending[0]
        self.file.seek(offset)
        return Record(self.file.read(length), count)

    def scan(self) -> None:
        """Index the complete records. A partial one at the end was being written when its process died."""
        position = 0
        while position + _HEADER.size <= self.size:
            self.file.seek(position)
            magic, length, count = _HEADER.unpack(self.file.read(_HEADER.size))
            offset = position + _HEADER.size
            if magic != _MAGIC or offset + length > self.size:
                return
            self.pending.append((offset, length, count))
            position = offset + length

    def clear(self) -> None:
        self.file.truncate(0)
        self.size = 0

    def delete(self) -> None:
        self.path.unlink(missing_ok=True)
        self.file.close()


class DiskStore:
    """Segment files of about a megabyte in one directory. The last segment is the one being written."""

    def __init__(self, directory: Path, *, max_bytes: int) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._directory = directory
        self._max_bytes = max_bytes
        self._segment_bytes = min(_SEGMENT_BYTES, max(1, max_bytes // 4))
        self._segments = deque(_adopt_segments(directory))
        self._active: _Segment | None = None
        # The first record, cached so that a record that is sent immediately is not read back from disk.
        self._first: Record | None = None

    def append(self, record: Record) -> int:
        segment = self._active
        if segment is None or segment.size >= self._segment_bytes:
            segment = self._active = _create_segment(self._directory)
            self._segments.append(segment)
        segment.append(record)
        if segment is self._segments[0] and len(segment.pending) == 1:
            self._first = record
        return self._make_room()

    def peek(self) -> Record | None:
        if self._first is None and self._segments and self._segments[0].pending:
            self._first = self._segments[0].read_first()
        return self._first

    def remove(self, record: Record) -> bool:
        # While the record was sent, the spool may have dropped it to make room. Another one is first then.
        if self._first is not record:
            return False
        self._first = None
        segment = self._segments[0]
        segment.pending.popleft()
        if segment.pending:
            return True
        # While the server keeps up, this happens after each record, so the file and its lock are kept.
        if segment is self._active:
            segment.clear()
        else:
            self._segments.popleft().delete()
        return True

    @property
    def events(self) -> int:
        return sum(segment.events for segment in list(self._segments))

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    def sync(self) -> None:
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
                segment.delete()
        self._segments.clear()
        self._active = None

    def _make_room(self) -> int:
        dropped = 0
        while len(self._segments) > 1 and self.size > self._max_bytes:
            oldest = self._segments.popleft()
            dropped += oldest.events
            oldest.delete()
            self._first = None
        return dropped


def _create_segment(directory: Path) -> _Segment:
    path = directory / f"{time.time_ns():020d}-{os.getpid()}-{next(_segment_numbers)}.spool"
    # Other processes look for *.spool: the file gets that name once it is locked.
    temporary = path.with_suffix(".new")
    file = os.fdopen(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "r+b", buffering=0)
    _lock(file)
    temporary.rename(path)
    return _Segment(path, file)


def _adopt_segments(directory: Path) -> list[_Segment]:
    """Return the segments of dead processes, oldest first. Live processes hold a lock on theirs."""
    segments = []
    for path in sorted(directory.glob("*.spool")):
        try:
            file = path.open("r+b", buffering=0)
        except OSError:
            continue
        # A file without a name was sent and deleted by another process after it was opened here.
        if not _lock(file) or not os.fstat(file.fileno()).st_nlink:
            file.close()
            continue
        segment = _Segment(path, file, size=os.fstat(file.fileno()).st_size)
        segment.scan()
        if segment.pending:
            segments.append(segment)
        else:
            segment.delete()
    return segments


def _lock(file: BinaryIO) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
