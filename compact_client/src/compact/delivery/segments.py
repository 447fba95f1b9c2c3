"""Segment files: the records of a spool on disk.

A record is a header and a body. The header has the length of the body, its number of events, the number of events
before it in the file, and a checksum of all that. A file that was damaged, for example by a power failure, is read
around the damage. Once its intact records are sent, it is kept under another name instead of being deleted.
"""

from __future__ import annotations

import errno
import gzip
import itertools
import os
import secrets
import struct
import time
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows: without locks, two processes may send the same segment, which is harmless.
    fcntl = None  # type: ignore[assignment]

HAS_LOCKS = fcntl is not None
# Earlier versions delete files with records that they do not know, so theirs have another suffix.
_SUFFIX, _OLD_SUFFIX = ".spool2", ".spool"
_DAMAGED_SUFFIX = ".damaged"
# Magic, length, events, events before this record in the file, CRC-32 of these fields and the body.
_HEADER, _MAGIC = struct.Struct(">4sIIQI"), b"CSP2"
_CHECKED_BYTES = _HEADER.size - 4
# Magic, length, events. The checksum of these records is that of their gzip streams.
_OLD_HEADER, _OLD_MAGIC = struct.Struct(">4sII"), b"CSP1"
_MAX_PLAUSIBLE_EVENTS = 100_000
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Record:
    """One body and the number of events in it."""

    body: bytes
    count: int


@dataclass(frozen=True, slots=True)
class Position:
    """The place of a body in its file."""

    offset: int
    length: int
    count: int


@dataclass(slots=True)
class Scan:
    """The content of a segment file: its intact records, and how much is damaged."""

    records: list[Position] = field(default_factory=list)
    damaged_bytes: int = 0
    damaged_events: int = 0


@dataclass(slots=True)
class Segment:
    """An open and locked segment file."""

    path: Path
    file: BinaryIO
    size: int = 0
    # Records that are not acknowledged yet.
    pending: deque[Position] = field(default_factory=deque)
    is_damaged: bool = False
    _events_written: int = 0

    @classmethod
    def create(cls, directory: Path) -> Segment:
        """Create an empty segment file that other processes do not touch."""
        # The clock can jump back and process ids repeat in containers, so the name has random digits.
        name = f"{time.time_ns():020d}-{os.getpid()}-{next(_numbers)}-{secrets.token_hex(4)}"
        path = directory / (name + _SUFFIX)
        return cls(path, create_locked(path))

    @property
    def events(self) -> int:
        return sum(position.count for position in list(self.pending))

    def append(self, record: Record) -> None:
        """Write a record at the end of the file, as a whole or not at all."""
        fields = _HEADER.pack(_MAGIC, len(record.body), record.count, self._events_written, 0)[:_CHECKED_BYTES]
        checksum = zlib.crc32(record.body, zlib.crc32(fields))
        data = fields + checksum.to_bytes(4, "big") + record.body
        self.file.seek(self.size)
        try:
            # On a full disk, the first write may succeed in part.
            if self.file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            self.file.truncate(self.size)
            raise
        self.pending.append(Position(self.size + _HEADER.size, len(record.body), record.count))
        self.size += len(data)
        self._events_written += record.count

    def read(self, position: Position) -> Record:
        self.file.seek(position.offset)
        return Record(self.file.read(position.length), position.count)

    def clear(self) -> None:
        """Forget the acknowledged records, and keep the file and its lock."""
        self.size = self._events_written = 0
        self.file.truncate(0)

    def dispose(self) -> None:
        """Delete the file, or rename it if it is damaged, so that nothing reads it again."""
        try:
            if self.is_damaged:
                self.path.rename(self.damaged_path)
            else:
                self.path.unlink(missing_ok=True)
        finally:
            self.file.close()

    @property
    def damaged_path(self) -> Path:
        """The name of the file once it is set aside."""
        return self.path.with_suffix(_DAMAGED_SUFFIX)


def orphans(directory: Path) -> Iterator[Segment]:
    """Yield the segments of dead processes, oldest first. Live processes hold a lock on theirs."""
    paths = [path for path in directory.iterdir() if path.suffix in (_SUFFIX, _OLD_SUFFIX)]
    for path in sorted(paths, key=lambda path: path.name):
        try:
            file = path.open("r+b", buffering=0)
        except OSError:
            continue  # Sent and deleted by another process since, or of another user.
        # A file without a name was sent and deleted by another process after it was opened here.
        if not lock(file) or not os.fstat(file.fileno()).st_nlink:
            file.close()
            continue
        yield Segment(path, file, size=os.fstat(file.fileno()).st_size)


def scan(data: bytes) -> Scan:
    """Find the intact records in the content of a segment file."""
    result, position, events = Scan(), 0, 0
    while position < len(data):
        record = _record_at(data, position)
        if record is not None:
            before = _events_before(data, position)
            # The number of events before this record says exactly how many the damaged ones had.
            if before is not None and before > events:
                result.damaged_events += before - events
                events = before
            result.records.append(record)
            events += record.count
            position = record.offset + record.length
            continue
        end = _next_record(data, position + 1)
        result.damaged_bytes += end - position
        if end == len(data) or _events_before(data, end) is None:
            result.damaged_events += max(1, _claimed_events(data[position:end]))
        position = end
    return result


def create_locked(path: Path) -> BinaryIO:
    """Create a file that only this process writes."""
    # Other processes look for the suffix: the file gets that name once it is locked.
    temporary = path.with_suffix(".new")
    file = os.fdopen(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "r+b", buffering=0)
    try:
        lock(file)
        temporary.rename(path)
    except OSError:
        file.close()
        temporary.unlink(missing_ok=True)
        raise
    return file


def lock(file: BinaryIO) -> bool:
    """Lock a file for this process. Return False if another one has it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _record_at(data: bytes, position: int) -> Position | None:
    """Return the intact record at a position."""
    if data.startswith(_MAGIC, position) and position + _HEADER.size <= len(data):
        _, length, count, _, checksum = _HEADER.unpack_from(data, position)
        offset = position + _HEADER.size
        if offset + length > len(data):
            return None
        actual = zlib.crc32(data[position : position + _CHECKED_BYTES])
        actual = zlib.crc32(memoryview(data)[offset : offset + length], actual)
        return Position(offset, length, count) if actual == checksum else None
    if data.startswith(_OLD_MAGIC, position) and position + _OLD_HEADER.size <= len(data):
        _, length, count = _OLD_HEADER.unpack_from(data, position)
        offset = position + _OLD_HEADER.size
        end = offset + length
        is_intact = end <= len(data) and _is_intact_body(data[offset:end])
        return Position(offset, length, count) if is_intact else None
    return None


def _is_intact_body(body: bytes) -> bool:
    """Return True for a body whose gzip stream, if it has one, is complete and has the right checksum."""
    start = 0 if body.startswith(b"\x1f\x8b") else body.find(b"\n\x1f\x8b") + 1
    if not body.startswith(b"\x1f\x8b", start):
        return True
    try:
        gzip.decompress(body[start:])
    except (OSError, EOFError, zlib.error):
        return False
    return True


def _events_before(data: bytes, position: int) -> int | None:
    """Return the number of events before a record in its file. Old records do not say it."""
    if not data.startswith(_MAGIC, position):
        return None
    before: int = _HEADER.unpack_from(data, position)[3]
    return before


def _next_record(data: bytes, position: int) -> int:
    """Return the position of the next intact record, or the end."""
    while position < len(data):
        starts = [start for magic in (_MAGIC, _OLD_MAGIC) if (start := data.find(magic, position)) >= 0]
        if not starts:
            break
        position = min(starts)
        if _record_at(data, position) is not None:
            return position
        position += 1
    return len(data)


def _claimed_events(data: bytes) -> int:
    """Return the number of events of damaged records, as far as their headers are readable."""
    events = position = 0
    while True:
        starts = [start for magic in (_MAGIC, _OLD_MAGIC) if (start := data.find(magic, position)) >= 0]
        if not starts or min(starts) + _OLD_HEADER.size > len(data):
            return events
        _, length, count = _OLD_HEADER.unpack_from(data, min(starts))
        events += count if count <= _MAX_PLAUSIBLE_EVENTS else 0
        position = min(min(starts) + _OLD_HEADER.size + length, len(data))
