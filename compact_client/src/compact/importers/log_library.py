"""Find the session logs of all supported agents on this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from compact.exceptions import CompactError
from compact.importers import opencode_store
from compact.importers.formats import FORMATS
from compact.importers.log_source import change_time_of

# The working directory is in the first lines of a log.
_HEAD_BYTES = 64 * 1024
_CWD = re.compile(r'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')


class LogNotFound(CompactError):
    """No session log has the given name."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A session log and the agent that wrote it."""

    path: Path
    agent: str
    modified_at: float

    @property
    def session_id(self) -> str:
        """The name of the session. Codex puts a time before the id."""
        return self.path.stem

    @property
    def names(self) -> tuple[str, str]:
        """The names that people use for the session: `rollout-2026-11-17T03-00-00-<uuid>`, or only the id in it."""
        return self.session_id, self.session_id[-36:]

    @property
    def modified(self) -> str:
        """The time of the last change, in ISO 8601."""
        return datetime.fromtimestamp(self.modified_at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

    def cwd(self) -> str | None:
        """Return the directory that the agent worked in, or None if the log does not say."""
        if opencode_store.is_session(self.path):
            return opencode_store.directory_of(self.path)
        with self.path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES).decode("utf-8", "replace")
        match = _CWD.search(head)
        return str(json.loads(match[1])) if match else None


def find_logs(directory: Path | None = None) -> list[LogFile]:
    """Return the logs of all agents, the newest first. With `directory`, only sessions that worked in or below it."""
    logs = sorted(_all_logs(), key=lambda log: log.modified_at, reverse=True)
    return logs if directory is None else [log for log in logs if _is_below(log, directory)]


def get_log(name: str | None, directory: Path | None = None) -> LogFile:
    """Return a log by its path, its session id or the start of it. Without a name, return the newest log."""
    if name:
        path = Path(name).expanduser()
        if path.is_file() or opencode_store.is_session(path):
            return LogFile(path, "file", change_time_of(path))
    logs = find_logs(directory)
    matches = [log for log in logs if name in (None, "") or name in log.names or log.session_id.startswith(str(name))]
    if matches:
        return matches[0]
    place = f" of {directory}" if directory is not None else ""
    reason = f"No session log{place} is called {name!r}." if name else f"No session logs{place} were found."
    raise LogNotFound(f"{reason} Looked in {', '.join(str(item.root()) for item in FORMATS)}.")


def _all_logs() -> Iterator[LogFile]:
    for item in FORMATS:
        root = item.root()
        if not root.is_dir():
            continue
        for path in set(item.files(root)):
            # Logs of sub-agents are parts of their sessions.
            if "subagents" not in path.parts and not path.name.startswith("agent-"):
                yield LogFile(path, item.name, change_time_of(path))


def _is_below(log: LogFile, directory: Path) -> bool:
    try:
        cwd = log.cwd()
    except OSError:
        return False
    return cwd is not None and Path(cwd).resolve().is_relative_to(directory.resolve())
