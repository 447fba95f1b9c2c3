"""Archive transcripts in a directory: `{path}/{session}/transcript-pre-compact-001.jsonl`.

Summaries (`summary-001.json`) and events (`events.jsonl`) are stored next to them. Files are written atomically, are
readable by their owner only, and are never replaced: if a step exists with other content, the next free number is used.
`sha256sum -c SHA256SUMS` and `compactctl verify` check the files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from compact.adapters.checksums import Checksums, EventLog
from compact.adapters.transcript import (
    Transcript,
    decode_transcript,
    encode_summary,
    folder_name,
    parse_step,
    summary_name,
    transcript_name,
)
from compact.messages import Message
from compact.protocols import ArchivedTranscript

EVENTS = "events.jsonl"
_MAX_EVENT_LOGS = 1_000
_DAY_S = 86_400
_CLEAN_EVERY_S = 3_600


class FileStorage:
    """Archives to a directory: `FileStorage("./.compact/archive", retention_days=90)`.

    Without `retention_days`, nothing is deleted.
    """

    name = "fs"

    def __init__(
        self, path: str | os.PathLike[str] = ".compact/archive", *, retention_days: float | None = None
    ) -> None:
        self.path = Path(path)
        self.retention_days = retention_days
        self._lock = threading.Lock()
        self._cleaned_at = 0.0
        self._event_logs: dict[Path, EventLog] = {}

    def save_transcript(
        self, session_id: str, transcript: Sequence[Message], step: int | None = None
    ) -> dict[str, Any]:
        """Write the transcript to disk and return its path and hash. Raises OSError if that fails."""
        document = Transcript.from_messages(transcript)
        with self._lock:
            folder = self._create_folder(session_id)
            number = _next_step(folder, transcript_name) if step is None else step
            number, file = _store(folder, transcript_name, number, lambda _: document.body)
            self._clean_hourly()
        return document.receipt(number, path=str(file))

    def save_summary(self, session_id: str, summary: Message, step: int) -> dict[str, Any]:
        """Write the summary and return its path and hash."""
        with self._lock:
            folder = self._create_folder(session_id)
            _, file = _store(folder, summary_name, step, lambda number: encode_summary(session_id, summary, number))
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
        return {"path": str(file), "sha256": digest}

    def load_transcripts(self, session_id: str) -> Iterator[ArchivedTranscript]:
        """Yield the session's transcripts, the newest first. A file that is deleted at the same time is left out."""
        folder = self.path / folder_name(session_id)
        names = [file.name for file in folder.iterdir()] if folder.is_dir() else []
        for step in sorted((step for name in names if (step := parse_step(name)) is not None), reverse=True):
            file, summary = folder / transcript_name(step), folder / summary_name(step)
            with contextlib.suppress(FileNotFoundError):
                text = summary.read_bytes() if summary.exists() else None
                yield decode_transcript(step, file.read_bytes(), text, file.stat().st_mtime)

    def save_event(self, session_id: str, event: dict[str, Any]) -> None:
        """Append the event to `events.jsonl`, and update its checksum."""
        line = json.dumps(event, separators=(",", ":"), ensure_ascii=False, default=str)
        with self._lock:
            folder = self._create_folder(session_id)
            with Checksums.lock(folder) as sums:
                sums[EVENTS] = self._event_log(folder).append(line.encode("utf-8", "replace") + b"\n")

    def _event_log(self, folder: Path) -> EventLog:
        log = self._event_logs.pop(folder, None) or EventLog(folder / EVENTS)
        self._event_logs[folder] = log
        if len(self._event_logs) > _MAX_EVENT_LOGS:
            self._event_logs.pop(next(iter(self._event_logs)))
        return log

    def clean(self, *, now: float | None = None) -> int:
        """Delete the sessions whose newest file is older than the retention, and return their number."""
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

    def _clean_hourly(self) -> None:
        now = time.time()
        if now - self._cleaned_at > _CLEAN_EVERY_S:
            self._cleaned_at = now
            self.clean(now=now)

    def _create_folder(self, session_id: str) -> Path:
        folder = self.path / folder_name(session_id)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder


def _next_step(folder: Path, name_of: Callable[[int], str]) -> int:
    """Return the first number after all files of this kind."""
    prefix, _, suffix = name_of(0).partition("000")
    numbers = (file.name.removeprefix(prefix).removesuffix(suffix) for file in folder.glob(f"{prefix}*{suffix}"))
    return max((int(number) for number in numbers if number.isdigit()), default=0) + 1


def _store(folder: Path, name_of: Callable[[int], str], step: int, encode: Callable[[int], bytes]) -> tuple[int, Path]:
    """Write a file under this number, or under the next free one if the number has other content."""
    while not _create(file := folder / name_of(step), body := encode(step)):
        if file.read_bytes() == body:
            break
        step = max(step + 1, _next_step(folder, name_of))
    with Checksums.lock(folder) as sums:
        # It may be missing even if the file exists, because a process was killed after it wrote the file.
        sums[file.name] = hashlib.sha256(body).hexdigest()
    return step, file


def _create(file: Path, body: bytes) -> bool:
    """Write a new file atomically and sync it to disk, because the original messages are pruned next.

    Return False if the file exists. Other processes may write to the same archive, and no file is ever replaced.
    """
    if file.exists():
        return False
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(body)
            out.flush()
            os.fsync(out.fileno())
        _rename_new(temporary, file)
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


def _rename_new(temporary: str, file: Path) -> None:
    """Rename a file, and raise FileExistsError if the name is taken. `os.rename` would replace the other file."""
    try:
        os.link(temporary, file)
    except FileExistsError:
        raise
    except OSError:
        # The file system has no hard links: reserve the name, then replace the empty file.
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        Path(temporary).replace(file)
