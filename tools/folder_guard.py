"""Run a command and fail if it read or wrote a folder: `python -m tools.folder_guard .ariadne make test`.

Compares sizes and times of all files before and after. Access times are set back first, because file systems usually
update one only if it is older than the last change. On a file system without access times, only writes are found.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_State = dict[str, tuple[int, ...]]


def main() -> int:
    folder, command = Path(sys.argv[1]), sys.argv[2:]
    _reset_access_times(folder)
    before = _state(folder)
    code = subprocess.run(command, check=False).returncode  # noqa: S603 - the caller's own command
    touched = changes(before, _state(folder))
    if touched:
        sys.stderr.write(f"{' '.join(command)} must not use {folder}, but touched:\n  " + "\n  ".join(touched) + "\n")
    return code or int(bool(touched))


def changes(before: _State, after: _State) -> list[str]:
    """Return the names of files that were read, written, created or deleted."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def _reset_access_times(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, ns=(0, path.stat().st_mtime_ns))


def _state(folder: Path) -> _State:
    """Return size and times by file. The access time of a folder is not part of it: listing the folder changes it."""
    state = {}
    for path in (folder, *folder.rglob("*")):
        if path.exists():
            facts = path.lstat()
            accessed_at = facts.st_atime_ns if path.is_file() else 0
            state[str(path)] = (facts.st_ino, facts.st_size, facts.st_mtime_ns, accessed_at)
    return state


if __name__ == "__main__":
    sys.exit(main())
