"""A small disk that a test can fill."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


class SmallDisk:
    """A file system in memory. `fill` takes its free space, `make_room` gives it back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self, *, leave_bytes: int = 0) -> None:
        self.make_room()
        with self._filler.open("wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, shutil.disk_usage(self.folder).free - leave_bytes)

    def make_read_only(self) -> None:
        subprocess.run(["mount", "-o", "remount,ro", str(self.folder)], check=True)

    def make_room(self) -> None:
        self._filler.unlink(missing_ok=True)


@contextlib.contextmanager
def small_disk(folder: Path, *, size_mb: int) -> Iterator[SmallDisk]:
    """Mount a small file system on a new folder, where this user may mount one."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={size_mb}m"]
    mount = subprocess.run(["mount", *options, "tmpfs", str(folder)], capture_output=True, text=True, check=False)
    if mount.returncode:
        pytest.skip(f"this user may not mount a small disk: {mount.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
