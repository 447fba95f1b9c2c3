"""Queue of encoded bodies that survives the process.

Every body is written here before it is sent and removed when the server has acknowledged it. If the server is
unreachable or this process dies, another process that uses the directory sends what is left. Sending a body twice is
harmless because the server is idempotent. The size is limited: the oldest bodies are dropped first and counted.

While the disk is full, new bodies wait in memory. They are written as soon as there is room again.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from compact.delivery import segments
from compact.delivery.counts import Counts
from compact.delivery.drops import Drops
from compact.delivery.segments import Record
from compact.delivery.stderr import log_problem
from compact.delivery.stores import DiskStore, MemoryStore

_DISK_RETRY_S = 1.0
ADOPTION_INTERVAL_S = 30.0
"""Seconds between two looks for the files of dead processes."""


class Spool:
    """A thread-safe queue of records on disk, and in memory while the directory cannot be written."""

    def __init__(self, directory: Path | None, *, max_bytes: int, counts: Counts, drops: Drops | None = None) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._counts = counts
        self._drops = drops
        self._disk: DiskStore | None = None
        self.reset()

    def reset(self) -> None:
        """Start without records, as a forked child must. The parent keeps sending its own."""
        self._lock = threading.Lock()
        if self._disk is not None:
            self._disk.abandon()
        self._disk = None
        self._memory = MemoryStore()
        self._problem: str | None = None
        self._disk_retry_at = 0.0
        self._adoption_at: float | None = None
        self._is_closed = False

    @property
    def has_directory(self) -> bool:
        """True if there is a directory, even if it cannot be written now."""
        return self._directory is not None

    @property
    def is_durable(self) -> bool:
        """True if every record survives the process."""
        return self._directory is not None and self._problem is None

    @property
    def pending(self) -> int:
        """Number of events in the queue."""
        disk = self._disk
        return self._memory.events + (disk.events if disk is not None else 0)

    def append(self, record: Record) -> None:
        """Add a record. Drop the oldest ones if the queue is over its limit."""
        with self._lock:
            if self._is_closed:
                self._append_late(record)
            elif self._write(record):
                self._recover(0)
            else:
                self._counts.drop(self._memory.append(record))

    def has_room(self, record: Record) -> bool:
        """True if a record fits without dropping another one."""
        with self._lock:
            size = self._memory.size + (self._disk.size if self._disk is not None else 0)
            return size + len(record.body) <= self._max_bytes

    def sync(self) -> None:
        """Write everything to the disk, so that it survives a power failure."""
        with self._lock:
            try:
                if self._disk is not None:
                    self._disk.sync()
            except OSError as error:
                self._fail("write to", error)

    def peek(self, max_events: int = 1) -> list[Record]:
        """Return the oldest record, and as many small ones after it as have `max_events`. Keep them in the queue."""
        with self._lock:
            self._leave_memory()
            self._adopt()
            records = self._disk.peek(max_events) if self._disk is not None else []
            return records or self._memory.peek(max_events)

    def remove(self, records: list[Record]) -> bool:
        """Remove the first records that `peek` returned. Return False if they were dropped since, or at the end."""
        with self._lock:
            try:
                is_removed = self._disk is not None and self._disk.remove(records)
            except OSError as error:
                self._fail("write to", error)
                return True
            return is_removed or self._memory.remove(records)

    def adopt_soon(self) -> None:
        """Look for the files of dead processes as soon as everything else is sent."""
        self._adoption_at = None if self._adoption_at is None else 0.0

    def close(self) -> tuple[int, int]:
        """Close the files. Return the numbers of unsent events on disk, and in memory, which are lost."""
        with self._lock:
            self._disk_retry_at = 0.0
            self._leave_memory()
            on_disk = self._disk.events if self._disk is not None else 0
            in_memory = self._memory.events
            if self._disk is not None:
                self._disk.close()
            self._disk, self._memory = None, MemoryStore()
            self._is_closed = True
        return on_disk, in_memory

    def _append_late(self, record: Record) -> None:
        """Write a record after `close`, for example of a worker that did not end in time, for the next process."""
        if self._directory is None:
            self._counts.drop(record.count)
            return
        try:
            disk = DiskStore(self._directory, max_bytes=self._max_bytes, counts=self._counts)
            disk.append(record)
            disk.close()
        except OSError as error:
            self._fail("write to", error)
            self._counts.drop(record.count)

    def _write(self, record: Record) -> bool:
        """Write a record to the disk. Return False while that fails."""
        disk = self._open()
        if disk is None:
            return False
        try:
            self._counts.drop(disk.append(record))
        except OSError as error:
            self._fail("write to", error)
            return False
        return True

    def _open(self) -> DiskStore | None:
        """Return the store on disk, or None if there is none or it has just failed."""
        if self._directory is None or self._is_closed or time.monotonic() < self._disk_retry_at:
            return None
        if self._disk is None:
            try:
                self._disk = DiskStore(self._directory, max_bytes=self._max_bytes, counts=self._counts)
            except OSError as error:
                self._fail("open", error)
        return self._disk

    def _leave_memory(self) -> None:
        """Write the records in memory to the disk, if there is room again."""
        if self._problem is None or self._open() is None:
            return
        moved = 0
        while records := self._memory.peek(1):
            if not self._write(records[0]):
                return
            self._memory.remove(records)
            moved += records[0].count
        if moved:
            self._recover(moved)

    def _recover(self, moved: int) -> None:
        """Say that the disk can be written again, once nothing waits in memory."""
        if self._problem is not None and not self._memory.events:
            self._problem = None
            suffix = f" {moved:,} items were moved to it from memory." if moved else ""
            log_problem("Ariadne", f"The spool {self._directory} can be written again.{suffix}")

    def _adopt(self) -> None:
        """Take over the files of dead processes: at the start, and then now and again while nothing else is to send."""
        now = time.monotonic()
        if self._adoption_at is not None:
            is_due = segments.HAS_LOCKS and now >= self._adoption_at
            if not is_due or self.pending:
                return
        disk = self._open()
        if disk is None:
            return
        self._adoption_at = now + ADOPTION_INTERVAL_S
        try:
            disk.adopt()
            if self._drops is not None:
                self._drops.adopt()
        except OSError as error:
            self._fail("read", error)

    def _fail(self, verb: str, error: OSError) -> None:
        self._disk_retry_at = time.monotonic() + _DISK_RETRY_S
        if self._problem is None:
            self._problem = f"Cannot {verb} the spool {self._directory} ({error.strerror})"
            log_problem("Ariadne", f"{self._problem}. New data is kept in memory until that works.")
