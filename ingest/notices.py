"""The newest warnings of a host, in `DATA_DIR/notices.log`: each line of the supervisor and the web processes.

The status page shows them, because an operator may not see the terminal. All processes append to one file. What a full
disk does not take waits in memory, and is written with the next line.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import deque
from datetime import UTC, datetime
from pathlib import Path

FILE_NAME = "notices.log"
MAX_BYTES = 256_000
_MAX_WAITING = 200


class Notices:
    """Appends lines to a file, and moves it to `.1` when it is large."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._waiting: deque[str] = deque(maxlen=_MAX_WAITING)
        self._lock = threading.Lock()

    def add(self, text: str) -> None:
        """Add a line with the time."""
        line = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {text.splitlines()[0] if text else ''}\n"
        with self._lock:
            self._waiting.append(line)
            with contextlib.suppress(OSError):
                self._write("".join(self._waiting).encode("utf-8", "replace"))
                self._waiting.clear()

    def newest(self, count: int) -> list[str]:
        """Return the newest lines of all processes, newest first."""
        lines = [line for file in (self._older, self._file) for line in _read_lines(file)]
        return [*reversed([*lines, *(line.rstrip("\n") for line in self._waiting)])][:count]

    @property
    def _older(self) -> Path:
        return self._file.with_name(f"{self._file.name}.1")

    def _write(self, data: bytes) -> None:
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            # One write per call, so that lines of several processes are not mixed.
            if os.write(descriptor, data) < len(data):
                raise OSError("the disk is full")
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        if size > MAX_BYTES:
            self._file.replace(self._older)


class NoticeHandler(logging.Handler):
    """Adds the first line of each record to the notices."""

    def __init__(self, file: Path) -> None:
        super().__init__(logging.WARNING)
        self.notices = Notices(file)

    def emit(self, record: logging.LogRecord) -> None:
        self.notices.add(self.format(record))


def _read_lines(file: Path) -> list[str]:
    try:
        return file.read_text(errors="replace").splitlines()
    except OSError:
        return []
