"""Archive to a directory: `{path}/{session}/transcript-pre-compact-001.jsonl`, `summary-001.json`, `events.jsonl`.

A file is written whole or not at all, readable by its owner only, and never replaced: a step that exists with other
content gets the next free number. `SHA256SUMS` beside the files is what `sha256sum -c` and `compactctl verify` check.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from compact.adapters.transcript import (
    folder_of,
    step_of,
    summary_body,
    summary_name,
    transcript_name,
    transcript_of,
)
from compact.messages import Message

SUMS = "SHA256SUMS"
_DAY_S = 86_400
_CLEAN_EVERY_S = 3_600


class FileStorage:
    """`FileStorage("./.compact/archive", retention_days=90)`; without `retention_days` nothing is ever deleted."""

    name = "fs"

    def __init__(
        self, path: str | os.PathLike[str] = ".compact/archive", *, retention_days: float | None = None
    ) -> None:
        self.path = Path(path)
        self.retention_days = retention_days
        self._lock = threading.Lock()
        self._cleaned_at = 0.0

    def save_transcript(
        self, session_id: str, transcript: Sequence[Message], step: int | None = None
    ) -> dict[str, Any]:
        """Write the transcript durably and return its path and hash; raises OSError if that is not possible."""
        made = transcript_of(transcript)
        with self._lock:
            folder = self._folder(session_id)
            number = _first_step(folder) if step is None else step
            number, file = _keep(folder, transcript_name, number, made.body)
            self._clean()
        return {"path": str(file), "step": number, "sha256": made.sha256, "message_count": made.message_count}

    def save_summary(self, session_id: str, summary: Message, step: int) -> dict[str, Any]:
        body = summary_body(session_id, summary, step)
        with self._lock:
            _, file = _keep(self._folder(session_id), summary_name, step, body)
        return {"path": str(file), "sha256": hashlib.sha256(body).hexdigest()}

    def save_event(self, session_id: str, event: dict[str, Any]) -> None:
        line = json.dumps(event, separators=(",", ":"), ensure_ascii=False, default=str)
        with self._lock:
            _append(self._folder(session_id) / "events.jsonl", line.encode("utf-8", "replace") + b"\n")

    def clean(self, *, now: float | None = None) -> int:
        """Delete sessions whose newest file is older than the retention; how many were deleted."""
        if self.retention_days is None or not self.path.is_dir():
            return 0
        limit = (now if now is not None else time.time()) - self.retention_days * _DAY_S
        removed = 0
        for folder in self.path.iterdir():
            files = [file for file in folder.iterdir() if file.is_file()] if folder.is_dir() else []
            if files and max(file.stat().st_mtime for file in files) < limit:
                shutil.rmtree(folder)
                removed += 1
        return removed

    def _clean(self) -> None:
        now = time.time()
        if now - self._cleaned_at > _CLEAN_EVERY_S:
            self._cleaned_at = now
            self.clean(now=now)

    def _folder(self, session_id: str) -> Path:
        folder = self.path / folder_of(session_id)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder


def _first_step(folder: Path) -> int:
    taken = [number for file in folder.iterdir() if (number := step_of(file.name)) is not None]
    return max(taken, default=0) + 1


def _keep(folder: Path, name_of: Callable[[int], str], step: int, body: bytes) -> tuple[int, Path]:
    """Write under the first free number from `step` on, or find exactly this there already."""
    digest = hashlib.sha256(body).hexdigest()
    while not _write(file := folder / name_of(step), body):
        if hashlib.sha256(file.read_bytes()).hexdigest() == digest:
            break
        step += 1
    line = f"{digest}  {file.name}\n".encode()
    # One who was stopped between the file and its sum left that to the next.
    if not (folder / SUMS).is_file() or line not in (folder / SUMS).read_bytes():
        _append(folder / SUMS, line)
    return step, file


def _write(file: Path, body: bytes) -> bool:
    """Whole or not at all, and on the disk when this returns: what is pruned next exists nowhere else.

    False if there is such a file already: other processes write to the same archive, and nothing is ever replaced.
    """
    if file.exists():
        return False
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(body)
            out.flush()
            os.fsync(out.fileno())
        _claim(temporary, file)
    except FileExistsError:
        return False
    finally:
        Path(temporary).unlink(missing_ok=True)
    directory = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return True


def _claim(temporary: str, file: Path) -> None:
    """Give a file its name, unless another has it: a link is refused where a rename would replace."""
    try:
        os.link(temporary, file)
    except FileExistsError:
        raise
    except OSError:
        # A file system without links; the name is taken first, then filled.
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        Path(temporary).replace(file)


def _append(file: Path, line: bytes) -> None:
    # One write to an appending descriptor: lines of two processes do not mix.
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
