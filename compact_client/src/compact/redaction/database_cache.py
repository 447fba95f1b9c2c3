"""Cache Hyperscan's compiled database in the user's cache directory, because compiling takes about half a second.

The name of the file is a hash of the expressions and of the versions involved, so a new release never reads an old
file. Hyperscan trusts what it loads. A file is therefore only used if it and its folder belong to this user, no one
else may write to them, and its content has the digest that it starts with.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path

_SUFFIX = ".hsdb"
_DIGEST_BYTES = 32
# Four versions of all databases.
_MAX_FILES = 20


def cache_key(
    numbers: Sequence[int], expressions: Sequence[bytes], flags: Sequence[int], versions: Sequence[str]
) -> str:
    """Return the name of the file for these expressions, on this kind of machine."""
    digest = hashlib.sha256("\0".join([*versions, platform.machine()]).encode())
    for number, expression, flag in zip(numbers, expressions, flags, strict=True):
        digest.update(b"%d\0%d\0%d\0%b" % (number, flag, len(expression), expression))
    return digest.hexdigest()[:32]


def read_database(key: str) -> bytes | None:
    """Return a cached database, or None if there is none that can be trusted."""
    try:
        folder = _folder()
        if not _is_private(folder.stat()):
            return None
        with (folder / f"{key}{_SUFFIX}").open("rb") as file:
            if not _is_private(os.fstat(file.fileno())):
                return None
            content = file.read()
    except (OSError, RuntimeError):
        return None
    data = content[_DIGEST_BYTES:]
    return data if hashlib.sha256(data).digest() == content[:_DIGEST_BYTES] else None


def write_database(key: str, data: bytes) -> None:
    """Cache a database. A folder that cannot be written to is not an error."""
    with contextlib.suppress(OSError, RuntimeError):
        folder = _folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_private(folder.stat()):
            return
        descriptor, name = tempfile.mkstemp(dir=folder, suffix=".new")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(hashlib.sha256(data).digest() + data)
            Path(name).replace(folder / f"{key}{_SUFFIX}")
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
        _remove_old(folder)


def _folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path("~/.cache").expanduser()) / "compact"


def _is_private(status: os.stat_result) -> bool:
    """True if this user owns a file or folder and no one else may write to it."""
    is_shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return not is_shared and (not hasattr(os, "getuid") or status.st_uid == os.getuid())


def _remove_old(folder: Path) -> None:
    files = sorted(folder.glob(f"*{_SUFFIX}"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[_MAX_FILES:]:
        file.unlink(missing_ok=True)
