"""The SHA256SUMS file of an archived session, and the log of events that it also covers.

Several processes may write to one session. A lock on the folder keeps their changes to the checksums apart.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: two processes that write to one session at the same time may lose a checksum.
    fcntl = None  # type: ignore[assignment]

SUMS = "SHA256SUMS"


class Checksums(dict[str, str]):
    """The digest of each file by name, in the order in which the files were written."""

    @classmethod
    @contextmanager
    def lock(cls, folder: Path) -> Iterator[Checksums]:
        """Read the checksums of a folder, and write them back if they were changed."""
        directory = os.open(folder, os.O_RDONLY)
        try:
            if fcntl is not None:
                fcntl.flock(directory, fcntl.LOCK_EX)
            sums = cls._read(folder / SUMS)
            before = dict(sums)
            yield sums
            if sums != before:
                sums._write(folder / SUMS)
        finally:
            os.close(directory)

    @classmethod
    def _read(cls, file: Path) -> Checksums:
        if not file.is_file():
            return cls()
        lines = file.read_text("utf-8", "replace").splitlines()
        return cls((name, digest) for digest, _, name in (line.partition("  ") for line in lines) if name)

    def _write(self, file: Path) -> None:
        temporary = file.with_name(f".{file.name}.{os.getpid()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            out.writelines(f"{digest}  {name}\n" for name, digest in self.items())
        temporary.replace(file)


class EventLog:
    """An append-only file whose digest is updated with each line, not computed again."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._size = 0

    def append(self, line: bytes) -> str:
        """Append a line and return the digest of the whole file. The caller holds the folder's lock."""
        descriptor = os.open(self._file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "rb+", buffering=0) as file:
            if os.fstat(descriptor).st_size != self._size:
                # Another process wrote to it, or this process did not write its beginning.
                file.seek(0)
                self._digest = hashlib.file_digest(file, "sha256")
                self._size = file.tell()
            os.write(descriptor, line)
        self._digest.update(line)
        self._size += len(line)
        return self._digest.hexdigest()
