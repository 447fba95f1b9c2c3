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
from collections.abc import Sequence
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
            number, exists = _free_step(folder, step, made.sha256)
            file = folder / transcript_name(number)
            if not exists:
                _write(file, made.body)
                _append(folder / SUMS, f"{made.sha256}  {file.name}\n".encode())
            self._clean()
        return {"path": str(file), "step": number, "sha256": made.sha256, "message_count": made.message_count}

    def save_summary(self, session_id: str, summary: Message, step: int) -> dict[str, Any]:
        body = summary_body(session_id, summary, step)
        digest = hashlib.sha256(body).hexdigest()
        with self._lock:
            folder = self._folder(session_id)
            file = folder / summary_name(step)
            while file.exists() and hashlib.sha256(file.read_bytes()).hexdigest() != digest:
                step += 1
                file = folder / summary_name(step)
            if not file.exists():
                _write(file, body)
                _append(folder / SUMS, f"{digest}  {file.name}\n".encode())
        return {"path": str(file), "sha256": digest}

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


def _free_step(folder: Path, step: int | None, sha256: str) -> tuple[int, bool]:
    """The number to write under, and whether exactly this is archived under it already."""
    if step is None:
        taken = [number for file in folder.iterdir() if (number := step_of(file.name)) is not None]
        step = max(taken, default=0) + 1
    while (file := folder / transcript_name(step)).exists():
        if hashlib.sha256(file.read_bytes()).hexdigest() == sha256:
            return step, True
        step += 1
    return step, False


def _write(file: Path, body: bytes) -> None:
    """Whole or not at all, and on the disk when this returns: what is pruned next exists nowhere else."""
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(body)
            out.flush()
            os.fsync(out.fileno())
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    directory = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _append(file: Path, line: bytes) -> None:
    # One write to an appending descriptor: lines of two processes do not mix.
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
