"""The key with which gateways of one user recognize each other."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from compact.delivery.endpoint import state_directory

_BYTES = 32


def user_key(directory: Path | None = None) -> bytes:
    """Return the key of this user, and create it first. Without a home, it is a key that no other process has."""
    path = (directory or state_directory() / "gateway") / "key"
    try:
        return _read(path)
    except OSError:
        pass
    key = secrets.token_bytes(_BYTES)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123  (a descriptor)
            file.write(key)
        # A link fails if another process was faster. Then its key counts.
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
        temporary.unlink()
        return _read(path)
    except OSError:
        return key


def _read(path: Path) -> bytes:
    key = path.read_bytes()
    if len(key) != _BYTES or path.stat().st_uid != os.getuid() or path.stat().st_mode & 0o077:
        raise PermissionError(f"{path} is not a private key of this user.")
    return key
