"""Read and replace the settings of an agent, with a backup."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from compact.agents.jsonc import Unsafe
from compact.cli import exit_codes

_T = TypeVar("_T")


def read(path: Path) -> str:
    """Return the text of the settings, empty if there are none. Raise `Unsafe` if it is not UTF-8."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise Unsafe(f"{path} is not UTF-8.") from None


def edit(path: Path, change: Callable[[], _T], advice: str = "") -> _T:
    """Return the result of an edit. Stop with the reason if the settings cannot be edited safely."""
    try:
        return change()
    except Unsafe as error:
        message = f"{path} was not changed. {error}{advice and ' '}{advice}"
        raise exit_codes.Stop(exit_codes.FAILED, message) from None


def write(path: Path, old: str, new: str) -> Path | None:
    """Replace the file atomically, with the old content in a backup beside it. A link keeps pointing to its target."""
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    backup, mode = None, None
    if target.exists():
        mode = target.stat().st_mode & 0o777
        backup = target.with_name(f"{target.name}.{time.strftime('%Y%m%d-%H%M%S')}.bak")
        _create(backup, old, mode)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    _create(temporary, new, mode)
    temporary.replace(target)
    return backup


def uninstall(
    path: Path,
    text: str,
    *,
    add: Callable[[str], str],
    remove: Callable[[str], str],
    is_installed: Callable[[str], bool],
) -> str:
    """Write the settings without our part, and return them. `add` is the edit of the installation.

    If nothing else has changed since, they are restored byte by byte: the text alone does not show whether an empty
    list or object was there before.
    """
    original = _find_original(path, text, add, is_installed)
    if original is None and add("") == text:
        # A file that was there before has a backup.
        path.resolve().unlink()
        return ""
    changed = remove(text) if original is None else original
    if changed != text:
        write(path, text, changed)
    return changed


def _find_original(path: Path, text: str, add: Callable[[str], str], is_installed: Callable[[str], bool]) -> str | None:
    """Return the settings from before the installation if nothing else has changed since, or None."""
    target = path.resolve()
    for file in sorted(target.parent.glob(f"{glob.escape(target.name)}.*.bak"), reverse=True):
        try:
            old = read(file)
            if not is_installed(old) and add(old) == text:
                return old
        except (OSError, Unsafe):
            continue
    return None


def _create(file: Path, text: str, mode: int | None) -> None:
    """Write a file that is never readable by more people than the settings are."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666 if mode is None else 0o600)
    with os.fdopen(descriptor, "wb") as out:
        if mode is not None:
            file.chmod(mode)
        out.write(text.encode())
        out.flush()
        os.fsync(out.fileno())
