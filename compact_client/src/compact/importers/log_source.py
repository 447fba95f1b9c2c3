"""Open a log and look at its size, also where a log is not one file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import IO

from compact.agents.agent import Status
from compact.agents.registry import storage_of


def open_log(path: Path) -> IO[bytes]:
    """Return the bytes of a log. `read_file` reads logs that are not one file by their path, so those have none."""
    return path.open("rb") if storage_of(path) is None else io.BytesIO()


def status_of(path: Path) -> Status:
    """Return the size of a log and the time of its last change, in nanoseconds. Raise `OSError` if it is gone."""
    storage = storage_of(path)
    if storage is not None:
        return storage.status_of(path)
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def size_of(path: Path) -> int:
    """Return the size of a log, 0 if it is gone."""
    try:
        return status_of(path)[0]
    except OSError:
        return 0


def change_time_of(path: Path) -> float:
    """Return the time of the last change in seconds. Raise `OSError` if the log is gone."""
    return status_of(path)[1] / 1e9
