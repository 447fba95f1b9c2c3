"""The MCP tools over local session logs. Answers are redacted and have a token budget.

Only logs of sessions that worked in one directory can be read, unless the user allows all of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import Field

from compact.estimators import TiktokenEstimator
from compact.exceptions import CompactError
from compact.importers import infer_ledger, read_log
from compact.importers.conversation import Conversation
from compact.importers.discovery import LogLocation, LogNotFound, find_sessions
from compact.importers.log_source import size_of, status_of
from compact.importers.session_summary import summarize_session
from compact.importers.uncompaction import LogIndex, explain, lost_items, main_compactions, render_items
from compact.recall import Passage, render_passages

INSTRUCTIONS = (
    "Earlier parts of this conversation may have been compacted away. Call recall to read them again before you ask "
    "the user, repeat work or guess. Call uncompact right after a compaction to see what it dropped."
)
MAX_TOKENS = 8_000
DEFAULT_TOKENS = 2_000
_LIMIT = 8
_MAX_SESSIONS = 100
_MAX_SEARCHED_LOGS = 20
_MAX_OPEN_LOGS = 4
# Read in a few seconds at most. Those of older sessions are listed without a description.
_MAX_LISTED_BYTES = 40 * 1024 * 1024

Query = Annotated[str, Field(description="A few words, and names, ids, paths or error messages exactly as written.")]
SessionName = Annotated[
    str, Field(description="Id of a session from list_sessions. Empty for the newest one of this directory.")
]
Tokens = Annotated[int, Field(ge=100, le=MAX_TOKENS, description="Size of the answer in tokens.")]
Number = Annotated[int, Field(ge=0, description="Number of the compaction, from 1. 0 for the last one.")]
Last = Annotated[int, Field(ge=0, description="Number of compactions, counted from the last one. 0 for all.")]


class LocalTools:
    """The tools. Parsed logs are cached until their files change."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._count_tokens = TiktokenEstimator().count_tokens
        self._summaries: dict[Path, tuple[tuple[int, int], str]] = {}
        self._logs: OrderedDict[Path, tuple[tuple[int, int], Conversation, LogIndex]] = OrderedDict()

    def recall(self, query: Query, session: SessionName = "", max_tokens: Tokens = DEFAULT_TOKENS) -> str:
        """Search one conversation for what was said and seen, including what a compaction removed from the context."""
        log = self._log(session)
        _, index = self._open(log)
        return self._render(log, self._search(index, query, max_tokens), max_tokens)

    def uncompact(self, session: SessionName = "", last: Last = 1, max_tokens: Tokens = DEFAULT_TOKENS) -> str:
        """List what the last compactions dropped: rules, decisions, open items, file changes and names, best first."""
        log = self._log(session)
        conversation, _ = self._open(log)
        items, notes = lost_items(conversation, last=last)
        heading = _heading(log)
        left = max_tokens - self._count_tokens(heading)
        return f"{heading}\n{render_items(items, notes, max_tokens=left, count_tokens=self._count_tokens)}"

    def explain_compaction(self, session: SessionName = "", n: Number = 0, max_tokens: Tokens = DEFAULT_TOKENS) -> str:
        """Explain one compaction: when and why it happened, what it removed, and what was lost."""
        log = self._log(session)
        conversation, _ = self._open(log)
        compactions = main_compactions(conversation)
        if not compactions:
            return f"{_heading(log)}\nThis session has no compaction."
        if n > len(compactions):
            raise CompactError(f"This session has {len(compactions)} compactions, so there is no number {n}.")
        compaction = compactions[n - 1] if n else compactions[-1]
        last = len(compactions) - compactions.index(compaction)
        items = [item for item in lost_items(conversation, last=last)[0] if item.compaction == compaction.number]
        text = f"{_heading(log)}\n{explain(infer_ledger(compaction), items)}"
        return _fit(text.splitlines(), max_tokens, self._count_tokens)

    def list_sessions(self, max_tokens: Tokens = DEFAULT_TOKENS) -> str:
        """List the sessions whose logs can be read, the newest first, each with its first request and its folder."""
        logs = find_sessions(self._directory)[:_MAX_SESSIONS]
        bytes_left = _MAX_LISTED_BYTES
        lines: list[str] = []
        for log in logs:
            size = size_of(log.path)
            bytes_left -= 0 if log.path in self._summaries else size
            lines.append(self._describe(log) if bytes_left >= 0 else _line(log, "not read, because it is large or old"))
        return _fit(lines or ["No session logs were found."], max_tokens, self._count_tokens)

    def _describe(self, log: LogLocation) -> str:
        """Return the line of a session in the list. A log is read again only if it has changed."""
        try:
            state = status_of(log.path)
            known = self._summaries.get(log.path)
            if known is None or known[0] != state:
                known = self._summaries[log.path] = state, str(summarize_session(read_log(log.path)[0]))
        except (CompactError, OSError) as error:
            return _line(log, f"could not be read: {error}")
        return _line(log, known[1])

    def search(self, query: Query, max_tokens: Tokens = DEFAULT_TOKENS) -> str:
        """Search the newest sessions of this directory."""
        matches: list[tuple[LogLocation, Passage]] = []
        notes: list[str] = []
        logs = find_sessions(self._directory)
        if len(logs) > _MAX_SEARCHED_LOGS:
            notes.append(f"(Searched the newest {_MAX_SEARCHED_LOGS} of {len(logs)} sessions.)")
        for log in logs[:_MAX_SEARCHED_LOGS]:
            try:
                _, index = self._open(log)
            except (CompactError, OSError) as error:
                notes.append(f"(Session {log.session_id} could not be read: {error})")
                continue
            matches += [(log, passage) for passage in self._search(index, query, max_tokens, limit=2)]
        matches.sort(key=lambda match: -match[1].score)
        blocks = [f"{_heading(log)}\n{render_passages([passage])}" for log, passage in matches[:_LIMIT]]
        return _fit([*notes, *(blocks or [render_passages([])])], max_tokens, self._count_tokens)

    def _log(self, session: str) -> LogLocation:
        """Return a log by its name. A path could name any file, so it is not accepted."""
        logs = find_sessions(self._directory)
        for log in logs:
            if not session or session in log.names:
                return log
        reason = f"There is no session {session!r} here." if session else "There are no session logs of this directory."
        raise LogNotFound(f"{reason} Call list_sessions to see what can be read.")

    def _open(self, log: LogLocation) -> tuple[Conversation, LogIndex]:
        state = status_of(log.path)
        known = self._logs.get(log.path)
        if known is None or known[0] != state:
            conversation, _ = read_log(log.path)
            known = (state, conversation, LogIndex(conversation))
            self._logs[log.path] = known
        self._logs.move_to_end(log.path)
        while len(self._logs) > _MAX_OPEN_LOGS:
            self._logs.popitem(last=False)
        return known[1], known[2]

    def _search(self, index: LogIndex, query: str, max_tokens: int, limit: int = _LIMIT) -> list[Passage]:
        # The headings of the passages need room, too.
        room = max(50, max_tokens - 40 * limit)
        return index.search(query, limit=limit, max_tokens=room, count_tokens=self._count_tokens)

    def _render(self, log: LogLocation, passages: list[Passage], max_tokens: int) -> str:
        blocks = [_heading(log), *(render_passages([passage]) for passage in passages)]
        return _fit(blocks if passages else [render_passages([])], max_tokens, self._count_tokens)


def build_server(directory: Path | None) -> MCPServer[Any]:
    """Return the server with its five tools."""
    tools = LocalTools(directory)
    functions = (tools.recall, tools.uncompact, tools.explain_compaction, tools.list_sessions, tools.search)
    return MCPServer(
        "ariadne",
        version=version("compact-client"),
        instructions=INSTRUCTIONS,
        log_level="ERROR",
        tools=[_create_tool(function) for function in functions],
    )


def _create_tool(function: Callable[..., str]) -> Tool:
    """Return a tool that rejects unknown arguments, and whose expected errors reach the model as `isError` results."""

    @wraps(function)
    def call(*args: Any, **arguments: Any) -> str:
        try:
            return function(*args, **arguments)
        except (CompactError, OSError) as error:
            # The package hides the text of any other exception, and writes its traceback to stderr.
            raise ToolError(str(error)) from error

    tool = Tool.from_function(call, annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
    model = tool.fn_metadata.arg_model
    # A model that misspells an argument would otherwise get the answer for its default.
    model.model_config["extra"] = "forbid"
    model.model_rebuild(force=True)
    tool.parameters = model.model_json_schema(by_alias=True)
    return tool


def _heading(log: LogLocation) -> str:
    return f"Session {log.session_id} ({log.agent_name})"


def _line(log: LogLocation, description: str) -> str:
    return f"{log.session_id} ({log.agent_name}, changed {log.modified}): {description}"


def _fit(blocks: list[str], max_tokens: int, count_tokens: Callable[[str], int]) -> str:
    """Return as many blocks as fit, and say how many were left out."""
    text = ""
    for index, block in enumerate(blocks):
        longer = f"{text}\n\n{block}" if text and "\n" in block else f"{text}\n{block}" if text else block
        if count_tokens(longer) > max_tokens - 20 and text:
            return f"{text}\n({len(blocks) - index:,} more did not fit.)"
        text = longer
    return text
