"""The agents whose logs can be read: where their logs are, how to recognize them, and their parsers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from compact.importers.agents import claude_code, codex, gemini, opencode, opencode_store, pi
from compact.importers.conversation import SessionLog
from compact.importers.records import LogRecord


class Parser(Protocol):
    """Reads the records of one log file into a `SessionLog`."""

    log: SessionLog

    def feed(self, record: LogRecord) -> None:
        """Read one record."""

    def finish(self) -> None:
        """Complete what the log leaves open at its end."""


@dataclass(frozen=True, slots=True)
class AgentFormat:
    """The logs of one agent."""

    name: str
    title: str
    directory: str
    """The default place, relative to the home directory."""
    variable: str
    """The environment variable with which the agent itself changes its home, and the part below it."""
    below: str
    patterns: tuple[str, ...]
    recognizes: Callable[[Mapping[str, Any]], bool]
    parser: Callable[..., Parser]
    content: tuple[str, ...]
    """The keys with conversation text. They are redacted before the parser, which reads text from nowhere else."""
    find: Callable[[Path], Iterator[Path]] | None = None
    """Finds the logs of an agent that does not write one file per session."""

    def root(self) -> Path:
        """Return the directory of the logs."""
        home = os.environ.get(self.variable)
        return Path(home).expanduser() / self.below if home else Path.home() / self.directory

    def files(self, root: Path) -> Iterator[Path]:
        """Yield the logs below a directory."""
        if self.find is not None:
            yield from self.find(root)
        for pattern in self.patterns:
            yield from (path for path in root.rglob(pattern) if path.is_file())


def _is_codex_line(line: Mapping[str, Any]) -> bool:
    return codex.is_log_line(line) or codex.is_bare_header(line)


FORMATS: tuple[AgentFormat, ...] = (
    AgentFormat(
        claude_code.NAME, "Claude Code", ".claude/projects", "CLAUDE_CONFIG_DIR", "projects",
        ("*.jsonl",), claude_code.is_log_line, claude_code.ClaudeCodeParser, claude_code.CONTENT,
    ),
    AgentFormat(
        codex.NAME, "Codex", ".codex/sessions", "CODEX_HOME", "sessions",
        ("rollout-*.jsonl",), _is_codex_line, codex.CodexParser, codex.CONTENT,
    ),
    AgentFormat(
        gemini.NAME, "Gemini CLI", ".gemini/tmp", "GEMINI_CLI_HOME", ".gemini/tmp",
        ("chats/**/*.jsonl", "chats/session-*.json"), gemini.is_log_line, gemini.GeminiParser,
        gemini.CONTENT,
    ),
    AgentFormat(
        opencode.NAME, "opencode", ".local/share/opencode", "XDG_DATA_HOME", "opencode",
        (), opencode.is_log_line, opencode.OpencodeParser, opencode.CONTENT, opencode_store.find_sessions,
    ),
    AgentFormat(
        pi.NAME, "pi", ".pi/agent/sessions", "PI_CODING_AGENT_DIR", "sessions",
        ("*.jsonl",), pi.is_log_line, pi.PiParser, pi.CONTENT,
    ),
)  # fmt: skip
BY_NAME: Mapping[str, AgentFormat] = {item.name: item for item in FORMATS}


def detect_format(line: Mapping[str, Any]) -> AgentFormat | None:
    """Return the format of a log by one of its first lines, or None if the line does not tell."""
    return next((item for item in FORMATS if item.recognizes(line)), None)
