"""Write files that are complete and on disk when the call returns, even if the machine stops right after it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_temporary(folder: Path, text: str) -> Path:
    """Write a text to a new file in a folder, flushed to disk. The caller gives it its name."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=".new-")
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return Path(name)


def flush_folder(folder: Path) -> None:
    """Flush the names in a folder to disk. Not every system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
