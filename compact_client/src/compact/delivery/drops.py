"""The number of dropped items that no server knows of yet.

The number is kept in a file beside the spool, not in a record of the spool, which could be dropped as well. It leaves
the file when the server has acknowledged a report of it. The next process reports the number of a dead one.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from compact.delivery.counts import Counts
from compact.delivery.segments import create_locked, lock
from compact.delivery.stderr import log_problem

_SUFFIX = ".drops"
# A file of constant size can be overwritten on a full disk.
_FILE_BYTES = 1024
_MAX_SESSION_CHARS = 150
_REPEAT_LOG_S = 60.0


@dataclass(frozen=True, slots=True)
class DropReport:
    """Items that one process has dropped. A report that is sent again with a higher count replaces the earlier one."""

    id: str
    count: int
    session_id: str | None


class Drops:
    """Saves and reports the drops of this process, and reports those of dead ones. Only the worker calls it."""

    def __init__(self, directory: Path | None, counts: Counts, *, noun: str) -> None:
        self._directory = directory
        self._counts = counts
        self._noun = noun
        self._file: BinaryIO | None = None
        self.reset()

    def reset(self) -> None:
        """Start at zero, as a forked child must. The parent keeps its file."""
        if self._file is not None:
            self._file.close()
        self.session_id: str | None = None
        """The session that a report is shown in."""
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._file = None
        self._saved = self._reported = 0
        self._logged, self._logged_at = 0, -_REPEAT_LOG_S
        self._orphans: list[tuple[DropReport, Path, BinaryIO]] = []
        self._id = secrets.token_hex(8)

    def save(self) -> None:
        """Write the number to the file if it has changed, and log it, at most once a minute."""
        self._save()
        if time.monotonic() - self._logged_at >= _REPEAT_LOG_S:
            self.log()

    def log(self) -> None:
        """Say how many items were dropped, if there are more than the last time."""
        dropped = self._counts.dropped
        if dropped == self._logged:
            return
        self._logged, self._logged_at = dropped, time.monotonic()
        log_problem(
            "Ariadne", f"{dropped:,} {self._noun}s were dropped so far because the queue or the spool was full."
        )

    def adopt(self) -> None:
        """Take over the files of dead processes."""
        if self._directory is None or not self._directory.is_dir():
            return
        for path in self._directory.glob(f"*{_SUFFIX}"):
            try:
                file = path.open("r+b", buffering=0)
            except OSError:
                continue
            if path == self._path or not lock(file) or not os.fstat(file.fileno()).st_nlink:
                file.close()
                continue
            try:
                self._orphans.append((DropReport(**json.loads(file.read())), path, file))
            except (OSError, ValueError, TypeError):
                # Its process died before it wrote the number.
                path.unlink(missing_ok=True)
                file.close()

    def next_report(self) -> DropReport | None:
        """Return drops that no server knows of."""
        if self._orphans:
            return self._orphans[0][0]
        unreported = self._counts.dropped - self._reported
        return DropReport(self._id, unreported, self.session_id) if unreported else None

    def confirm(self, report: DropReport) -> None:
        """Forget drops that the server knows of now."""
        with self._lock:
            if self._orphans and self._orphans[0][0] is report:
                _, path, file = self._orphans.pop(0)
                path.unlink(missing_ok=True)
                file.close()
                return
            self._reported += report.count
            self._id = secrets.token_hex(8)
        self._save()

    def close(self) -> None:
        """Leave the file to the next process, or delete it if it says nothing."""
        self._save()
        with self._lock:
            for _, _, file in self._orphans:
                file.close()
            self._orphans = []
            if self._file is not None:
                self._file.close()
            self._file = None

    def _save(self) -> None:
        with self._lock:
            unreported = self._counts.dropped - self._reported
            if unreported == self._saved:
                return
            # While the disk cannot be written, this process still knows the number, and tries again.
            with contextlib.suppress(OSError):
                self._write(unreported)
                self._saved = unreported

    def _write(self, count: int) -> None:
        if self._directory is None:
            return
        if not count:
            self._delete()
            return
        if self._file is None:
            self._path = self._directory / f"{os.getpid()}-{secrets.token_hex(8)}{_SUFFIX}"
            self._file = create_locked(self._path)
        session_id = self.session_id if len(self.session_id or "") <= _MAX_SESSION_CHARS else None
        content = json.dumps({"id": self._id, "count": count, "session_id": session_id})
        self._file.seek(0)
        self._file.write(content.encode().ljust(_FILE_BYTES))

    def _delete(self) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        if self._file is not None:
            self._file.close()
        self._path = self._file = None
