"""Find session logs: those of all agents on this machine, or those under given paths."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from compact.agents.agent import Agent
from compact.agents.log_records import LogRecord
from compact.agents.registry import AGENTS, detect_agent, storage_of
from compact.exceptions import CompactError
from compact.importers.log_source import change_time_of, open_log
from compact.importers.reader import read_file

_FILE_NAMES = tuple(dict.fromkeys(name for agent in AGENTS for name in agent.file_names))
_MAX_LINES_TO_PEEK = 200


class LogNotFound(CompactError):
    """No session log has the given name."""


@dataclass(frozen=True, slots=True)
class LogLocation:
    """A session log on disk."""

    path: Path
    agent: Agent | None
    """The agent whose directory contains the log, or None if the user named the path."""
    modified_at: float

    @property
    def session_id(self) -> str:
        """The name of the session, which may be more than its id."""
        return self.path.stem

    @property
    def names(self) -> tuple[str, str]:
        """The names that people use for the session: `rollout-2026-11-17T03-00-00-<uuid>`, or only the id in it."""
        return self.session_id, self.agent.session_of(self.session_id) if self.agent else self.session_id

    @property
    def agent_name(self) -> str:
        """The name of the agent, for people."""
        return self.agent.name if self.agent else "file"

    @property
    def modified(self) -> str:
        """The time of the last change, in ISO 8601."""
        return datetime.fromtimestamp(self.modified_at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

    @property
    def is_of_subagent(self) -> bool:
        """True if the log is a part of another session."""
        return self.agent is not None and self.agent.is_of_subagent(self.path)


@dataclass(frozen=True, slots=True)
class LogFilter:
    """The logs to read. Without paths, the agents' own places are searched."""

    paths: Sequence[Path] = ()
    agents: Sequence[str] = ()
    since: datetime | None = None
    project: Path | None = None
    """The directory in or below which the agent worked."""

    def find(self) -> list[LogLocation]:
        """Return the logs, oldest first, so that the log of a session comes before those that continue it."""
        logs: dict[Path, LogLocation] = {}
        for path, agent in self._candidates():
            try:
                modified = change_time_of(path)
            except OSError:
                continue  # deleted in the meantime
            if self.since is None or modified >= self.since.timestamp():
                logs.setdefault(path, LogLocation(path, agent, modified))
        return sorted(logs.values(), key=lambda log: (log.modified_at, log.path))

    def accepts(self, log: LogLocation) -> bool:
        """Return True if the log belongs to the wanted agents and the wanted directory."""
        if self.project is None and (log.agent is not None or not self.agents):
            return True
        agent, directory = _peek(log)
        if self.agents and (agent is None or agent.name not in self.agents):
            return False
        if self.project is None:
            return True
        return directory is not None and Path(directory).resolve().is_relative_to(self.project.resolve())

    def _candidates(self) -> Iterator[tuple[Path, Agent | None]]:
        for path in self.paths:
            yield from ((log, None) for log in _logs_in(path))
        if self.paths:
            return
        for agent in AGENTS:
            if self.agents and agent.name not in self.agents:
                continue
            root = agent.root()
            if root.is_dir():
                yield from ((file, agent) for file in agent.files(root))


def find_sessions(directory: Path | None = None) -> list[LogLocation]:
    """Return the sessions of all agents, the newest first. With `directory`, only those that worked in or below it."""
    log_filter = LogFilter(project=directory)
    return [log for log in reversed(log_filter.find()) if not log.is_of_subagent and log_filter.accepts(log)]


def get_session(name: str | None) -> LogLocation:
    """Return a log by its path, its session id or the start of it. Without a name, return the newest log."""
    if name:
        path = Path(name).expanduser()
        if path.is_file() or storage_of(path) is not None:
            return LogLocation(path, None, change_time_of(path))
    for log in find_sessions():
        if not name or name in log.names or log.session_id.startswith(name):
            return log
    reason = f"No session log is called {name!r}." if name else "No session logs were found."
    raise LogNotFound(f"{reason} Looked in {', '.join(str(item.root()) for item in AGENTS)}.")


def _logs_in(path: Path) -> Iterator[Path]:
    """Yield the logs of any agent in a path that the user names."""
    storages = [agent.storage for agent in AGENTS if agent.storage is not None]
    storage = next((storage for storage in storages if storage.is_storage(path)), None)
    if storage is not None:
        yield from storage.sessions_of(path)
    elif path.is_dir():
        for storage in storages:
            yield from storage.find_sessions(path)
        for name in _FILE_NAMES:
            yield from (file for file in path.rglob(name) if file.is_file())
    else:
        yield path


def _peek(log: LogLocation) -> tuple[Agent | None, str | None]:
    """Return the agent and the directory that the first lines of a log name."""
    agent, parser = log.agent, None
    held: list[LogRecord] = []
    try:
        if agent is not None and agent.storage is not None and agent.storage.is_session(log.path):
            return agent, agent.storage.directory_of(log.path)
        with open_log(log.path) as stream:
            for line in itertools.islice(read_file(stream, log.path), _MAX_LINES_TO_PEEK):
                if not isinstance(line, LogRecord):
                    continue
                held.append(line)
                agent = agent or detect_agent(line.value)
                if agent is None:
                    continue
                parser = parser or agent.parser(log.path)
                while held:
                    parser.feed(held.pop(0))
                if parser.recorder.cwd:
                    return agent, parser.recorder.cwd
    except OSError:
        return agent, None
    return agent, None
