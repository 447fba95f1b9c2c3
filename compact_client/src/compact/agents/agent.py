"""The description of an agent: where its logs are, how to recognize them, and who reads them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from compact.agents.hooks import Hooks
from compact.agents.log_records import LogRecord, SkippedLine
from compact.events import PartName, RequestClass
from compact.recording import SessionRecorder

Status = tuple[int, int]
"""The bytes of a log, and the time of its last change in nanoseconds."""


class Parser(Protocol):
    """Reads the records of one log into a recorder."""

    recorder: SessionRecorder

    def feed(self, record: LogRecord) -> None:
        """Read one record."""

    def finish(self) -> None:
        """Complete what the log leaves open at its end."""


class Storage(Protocol):
    """The logs of an agent that does not write one file per session. A session is named by a path of its own."""

    def is_storage(self, path: Path) -> bool:
        """Return True if a path contains sessions and is not a directory."""

    def is_session(self, path: Path) -> bool:
        """Return True if a path names a session."""

    def sessions_of(self, storage: Path) -> list[Path]:
        """Return the sessions in a path that is a storage."""

    def find_sessions(self, root: Path) -> Iterator[Path]:
        """Yield the sessions below a directory."""

    def status_of(self, path: Path) -> Status:
        """Return the size and the last change of a session. Raise `OSError` if it is gone."""

    def directory_of(self, path: Path) -> str | None:
        """Return the directory that a session worked in."""

    def read_session(self, path: Path) -> Iterator[LogRecord | SkippedLine]:
        """Yield the records of a session. Their ends add up to its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSettings:
    """The settings of an agent that name its MCP servers. The edits are like those of `Hooks`."""

    settings_file: Callable[[str], Path]
    """Returns the settings of a scope: `user` or `project`."""
    entry: Callable[[Sequence[str]], dict[str, Any]]
    """Returns the form that the settings have for a server that a command starts."""
    add: Callable[[str, dict[str, Any]], str]
    remove: Callable[[str], str]
    installed: Callable[[str], dict[str, Any] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WireRequest:
    """The head of a request as its agent describes it, apart from the messages."""

    session_id: str
    agent_id: str = ""
    """The sub-agent that sent it, or the empty string for the main agent."""
    agent_type: str = ""
    request_class: RequestClass = "main"
    trigger: str = ""
    """The reason of the compaction that this request asks for the summary of."""
    is_compacted: bool = False
    """True if the agent says that the prompt is the first one after a compaction."""


class RequestFields(Protocol):
    """The fields of a request body, decoded when they are asked for."""

    def get(self, name: str) -> Any:
        """Return a field, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """The requests of an agent, as the gateway sees them."""

    read_request: Callable[[Mapping[str, str], str, RequestFields], WireRequest | None]
    """Returns what headers, path and fields say about a request, or None if another program sent it."""
    read_text: Callable[[str], tuple[PartName, str] | None] = lambda text: None
    """Returns the part and the name of a text that the agent's program has put into a message."""
    is_aside: Callable[[str], bool] = lambda text: False
    """Returns True for texts that the program adds, moves and removes at will, such as reminders."""
    is_notice: Callable[[str], bool] = lambda text: False
    """Returns True for what the program says in the user's place. It is part of the conversation."""
    is_summary: Callable[[str], bool] = lambda text: False
    """Returns True for the message with the summary after a compaction."""
    is_summary_request: Callable[[str], bool] = lambda text: False
    """Returns True for the instruction that ends a request for a summary."""
    name_of_call: Callable[[Sequence[Mapping[str, Any]]], str] = lambda items: ""
    """Returns the name that the log gives to a call, from the items of its answer, if it is not the answer's id."""
    has_message_ids: bool = False
    """True if the user's messages have the ids that the log has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One agent. Its folder contains everything that is true only of it, and nothing else needs to change."""

    name: str
    title: str
    directory: str
    """The default place of the logs, relative to the home directory."""
    variable: str
    """The environment variable with which the agent itself changes its home."""
    below: str
    """The part of `directory` below that home."""
    patterns: tuple[str, ...]
    """The logs in the agent's own place."""
    file_names: tuple[str, ...] = ("*.jsonl",)
    """The logs in any other directory that a user names."""
    recognizes: Callable[[Mapping[str, Any]], bool]
    """Returns True for one of the first lines of a log."""
    parser: Callable[..., Parser]
    content: tuple[str, ...]
    """The keys with conversation text. They are redacted before the parser, which reads text from nowhere else."""
    storage: Storage | None = None
    session_of: Callable[[str], str] = str
    """Returns the session id in the name of a log, if it has more than that."""
    is_of_subagent: Callable[[Path], bool] = lambda path: False
    """Returns True for a log that is a part of another session."""
    hooks: Hooks | None = None
    mcp: McpSettings | None = None
    wire: Wire | None = None

    def root(self) -> Path:
        """Return the directory of the logs."""
        home = os.environ.get(self.variable)
        return Path(home).expanduser() / self.below if home else Path.home() / self.directory

    def files(self, root: Path) -> Iterator[Path]:
        """Yield the logs below a directory."""
        if self.storage is not None:
            yield from self.storage.find_sessions(root)
        for pattern in self.patterns:
            yield from (path for path in root.rglob(pattern) if path.is_file())
