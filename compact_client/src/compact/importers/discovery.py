"""Find the logs of all agents, or those under given paths, and filter them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from compact.importers import opencode_store
from compact.importers.formats import FORMATS, AgentFormat, detect_format
from compact.importers.log_source import change_time_of, open_log
from compact.importers.reader import read_file
from compact.importers.records import LogRecord

_PATTERNS = ("*.jsonl", "session-*.json")
_MAX_LINES_TO_PEEK = 200


@dataclass(frozen=True, slots=True)
class LogFilter:
    """The logs to read. Without paths, the agents' own places are searched."""

    paths: Sequence[Path] = ()
    agents: Sequence[str] = ()
    since: datetime | None = None
    project: Path | None = None

    def find(self) -> list[tuple[Path, AgentFormat | None]]:
        """Return the logs, oldest first, so that the log of a session comes before those that continue it."""
        logs: dict[Path, tuple[float, AgentFormat | None]] = {}
        for path, agent in self._candidates():
            try:
                modified = change_time_of(path)
            except OSError:
                continue  # deleted in the meantime
            if self.since is None or modified >= self.since.timestamp():
                logs.setdefault(path, (modified, agent))
        return [(path, agent) for path, (_, agent) in sorted(logs.items(), key=lambda item: (item[1][0], item[0]))]

    def accepts(self, path: Path, agent: AgentFormat | None) -> bool:
        """Return True if the log belongs to the wanted agents and the wanted project folder."""
        if self.project is None and (agent is not None or not self.agents):
            return True
        agent, project = _peek(path, agent)
        if self.agents and (agent is None or agent.name not in self.agents):
            return False
        if self.project is None:
            return True
        return project is not None and Path(project).is_relative_to(self.project)

    def _candidates(self) -> Iterator[tuple[Path, AgentFormat | None]]:
        for path in self.paths:
            yield from ((log, None) for log in _logs_in(path))
        if self.paths:
            return
        for agent in FORMATS:
            if self.agents and agent.name not in self.agents:
                continue
            root = agent.root()
            if root.is_dir():
                yield from ((file, agent) for file in agent.files(root))


def _logs_in(path: Path) -> Iterator[Path]:
    """Yield the logs of any agent in a path that the user names."""
    if path.suffix == ".db":
        yield from opencode_store.sessions_of(path)
    elif path.is_dir():
        yield from opencode_store.find_sessions(path)
        for pattern in _PATTERNS:
            yield from (file for file in path.rglob(pattern) if file.is_file())
    else:
        yield path


def _peek(path: Path, agent: AgentFormat | None) -> tuple[AgentFormat | None, str | None]:
    """Return the agent and the project folder that the first lines of a log name."""
    parser = None
    held: list[LogRecord] = []
    try:
        with open_log(path) as stream:
            for number, line in enumerate(read_file(stream, path)):
                if number >= _MAX_LINES_TO_PEEK:
                    break
                if not isinstance(line, LogRecord):
                    continue
                held.append(line)
                agent = agent or detect_format(line.value)
                if agent is None:
                    continue
                parser = parser or agent.parser(path)
                for record in held:
                    parser.feed(record)
                held = []
                if parser.log.cwd:
                    return agent, parser.log.cwd
    except OSError:
        return agent, None
    return agent, None
