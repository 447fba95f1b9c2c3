"""The MCP tools of the server. Each answer is text with a token budget, and contains only what the reader may see."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import version
from typing import Annotated, Any

from channels.db import database_sync_to_async
from compact import TiktokenEstimator
from compact.importers.uncompaction import LostItem, items_from_facts, rank_items, render_items
from compact.recall import render_passages
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError as ToolResultError
from mcp_types import ToolAnnotations
from pydantic import Field

from ingest.decoding.schema import SESSION_MAX_BYTES
from ingest.models import Session
from viewer.accounts.access import Right
from viewer.audit import payload_views
from viewer.compactions import queries as compaction_queries
from viewer.kinds import RETENTION
from viewer.mcp.reader import HIDDEN, NEEDS_REASON, Reader, ToolError, current_reader
from viewer.mcp.session_texts import session_index
from viewer.numbers import format_count
from viewer.search.queries import Result
from viewer.search.queries import search as search_projects
from viewer.sessions import queries
from viewer.sessions.checks import Check
from viewer.sessions.descriptions import describe_check
from viewer.sessions.session_list import SessionFilter, sessions_page, titles
from viewer.visibility.public_parts import Visibility

INSTRUCTIONS = (
    "Sessions of agents and what their compactions removed. Call recall to read what is no longer in the context, "
    "uncompact to see what the last compaction dropped, and search to find a session."
)
MAX_TOKENS = 8_000
DEFAULT_TOKENS = 2_000
_LIMIT = 8
_MAX_ROWS = 50
_FOOTER_TOKENS = 20

Query = Annotated[str, Field(max_length=4_000, description="A few words, names, ids, paths or error messages.")]
SessionName = Annotated[
    str,
    Field(max_length=SESSION_MAX_BYTES, description="Id of a session. Empty for the session that changed last."),
]
Tokens = Annotated[int, Field(ge=100, le=MAX_TOKENS, description="Size of the answer in tokens.")]
Number = Annotated[int, Field(ge=0, description="Number of the compaction, from 1. 0 for the last one.")]

Last = Annotated[int, Field(ge=0, description="Number of compactions, counted from the last one. 0 for all.")]


def recall(reader: Reader, query: str, session: str, max_tokens: int) -> str:
    owner = reader.session(session)
    reader.open_content(owner, "recall over MCP")
    passages = session_index(owner).search(
        query, limit=_LIMIT, max_tokens=max(50, max_tokens - 40 * _LIMIT), count_tokens=_count_tokens
    )
    blocks = [_heading(owner), *(render_passages([passage]) for passage in passages)]
    return _fit(blocks if passages else [_heading(owner), render_passages([])], max_tokens)


def uncompact(reader: Reader, session: str, last: int, max_tokens: int) -> str:
    owner = reader.session(session)
    compactions = _compactions(reader, owner)
    if not compactions:
        return f"{_heading(owner)}\nThis session has no compaction, so nothing was dropped."
    reader.open_content(owner, "lost facts over MCP")
    count = len(compactions)
    first = max(1, count - last + 1) if last else 1
    items = rank_items(item for n in range(first, count + 1) for item in _lost_items(owner, compactions, n))
    heading = _heading(owner)
    left = max_tokens - _count_tokens(heading)
    return f"{heading}\n{render_items(items, [], max_tokens=left, count_tokens=_count_tokens)}"


def explain_compaction(reader: Reader, session: str, n: int, max_tokens: int) -> str:
    owner = reader.session(session)
    compactions = _compactions(reader, owner)
    number = n or len(compactions)
    if not 1 <= number <= len(compactions):
        raise ToolError(f"This session has {len(compactions)} compactions, so there is no number {n}.")
    check = compactions[number - 1]
    lines = [f"{_heading(owner)}, compaction {number} of {len(compactions)}", describe_check(check)]
    if check.fates:
        lines.append("Messages: " + ", ".join(f"{count:,} {fate}" for fate, count in sorted(check.fates.items())))
    if check.facts_total is not None:
        lines.append(f"Facts of the removed messages: {check.facts_total:,}, kept: {check.facts_kept or 0:,}")
    sight = payload_views.sight_of(reader.grant, owner)
    if sight.has_content:
        reader.open_content(owner, "lost facts over MCP")
        items = rank_items(_lost_items(owner, compactions, number))
        lines.append(render_items(items, [], max_tokens=max_tokens // 2, count_tokens=_count_tokens))
    else:
        lines.append(NEEDS_REASON if sight.needs_reason else HIDDEN)
    return _fit(lines, max_tokens)


def list_sessions(reader: Reader, max_tokens: int) -> str:
    sessions, _ = sessions_page(reader.grant.projects(Right.SESSIONS), SessionFilter(), limit=_MAX_ROWS)
    names = titles(sessions, Visibility.METADATA)
    lines = [_session_line(session, names.get(session.session_id, "")) for session in sessions]
    return _fit(lines or ["There are no sessions in your projects."], max_tokens)


def search(reader: Reader, query: str, max_tokens: int) -> str:
    projects = {
        project_id: payload_views.project_visibility(reader.grant, project_id)
        for project_id in sorted(reader.grant.projects(Right.SESSIONS))
    }
    page = search_projects(projects, query, limit=_MAX_ROWS)
    if page.has_content:
        for project_id in sorted({result.session.project_id for result in page.results if result.span is not None}):
            payload_views.record_search_view(reader.origin, reader.grant, project_id)
    return _fit([_result_line(result) for result in page.results] or ["Nothing matches."], max_tokens)


@lru_cache(maxsize=1)
def build_server() -> MCPServer[Any]:
    """Return the server with its five tools. The reader of a call is in `current_reader`."""
    server: MCPServer[Any] = MCPServer(
        "ariadne", version=version("ariadne-server"), instructions=INSTRUCTIONS, log_level="ERROR"
    )

    async def recall_tool(query: Query, session: SessionName = "", max_tokens: Tokens = DEFAULT_TOKENS) -> str:
        """Search one session for what was said and seen, including what a compaction removed from the context."""
        return await _run(recall, query, session, max_tokens)

    async def uncompact_tool(session: SessionName = "", last: Last = 1, max_tokens: Tokens = DEFAULT_TOKENS) -> str:
        """List what the last compactions dropped: rules, decisions, open items, file changes and names, best first."""
        return await _run(uncompact, session, last, max_tokens)

    async def explain_tool(session: SessionName = "", n: Number = 0, max_tokens: Tokens = DEFAULT_TOKENS) -> str:
        """Explain one compaction: when and why it happened, what it removed, and what was lost."""
        return await _run(explain_compaction, session, n, max_tokens)

    async def list_tool(max_tokens: Tokens = DEFAULT_TOKENS) -> str:
        """List the sessions of your projects, the newest first."""
        return await _run(list_sessions, max_tokens)

    async def search_tool(query: Query, max_tokens: Tokens = DEFAULT_TOKENS) -> str:
        """Find sessions, messages and summaries of your projects that contain all words."""
        return await _run(search, query, max_tokens)

    tools: dict[str, Callable[..., Any]] = {
        "recall": recall_tool,
        "uncompact": uncompact_tool,
        "explain_compaction": explain_tool,
        "list_sessions": list_tool,
        "search": search_tool,
    }
    for name, tool in tools.items():
        annotations = ToolAnnotations(read_only_hint=True)
        server.add_tool(tool, name=name, annotations=annotations, structured_output=False)
    return server


async def _run(tool: Callable[..., str], *arguments: Any) -> str:
    reader = current_reader.get()

    def answer() -> str:
        try:
            return tool(reader, *arguments)
        except ToolError as error:
            raise ToolResultError(str(error)) from error

    text: str = await database_sync_to_async(answer)()
    return text


def _compactions(reader: Reader, session: Session) -> list[Check]:
    visibility = Visibility.CONTENT if reader.may_see_content(session) else Visibility.METADATA
    return queries.checks(session, visibility).compactions()


def _lost_items(session: Session, compactions: list[Check], number: int) -> list[LostItem]:
    """Return the lost facts of a compaction, values in their sentences."""
    check = compactions[number - 1]
    payload = compaction_queries.payload(session, check.span(RETENTION))
    facts = compaction_queries.lost_in_sentences(session, check, payload)
    return items_from_facts(facts, number, _iso(check.started_at))


def _result_line(result: Result) -> str:
    snippet = "".join(part.text for part in result.snippet)
    return f"[session {result.session.session_id}, {result.type}, {_iso(result.at)}] {snippet}"


def _session_line(session: Session, title: str) -> str:
    counts = format_count(session.turn_count, "turn"), format_count(session.compaction_count, "compaction")
    period = f"{_iso(session.first_at)} to {_iso(session.last_at)}"
    parts = [f'"{title}"' if title else "", session.model, *counts, period]
    return f"{session.session_id}: {', '.join(part for part in parts if part)}"


def _heading(session: Session) -> str:
    return f"Session {session.session_id}"


def _iso(at: Any) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z") if at else "unknown"


@lru_cache(maxsize=1)
def _estimator() -> TiktokenEstimator:
    return TiktokenEstimator()


def _count_tokens(text: str) -> int:
    return _estimator().count_tokens(text)


def _fit(blocks: list[str], max_tokens: int) -> str:
    """Return as many blocks as fit, and say how many were left out."""
    shown: list[str] = []
    left = max_tokens - _FOOTER_TOKENS
    for block in blocks:
        left -= _count_tokens(block) + 1
        if left < 0 and shown:
            return "\n".join([*shown, f"({len(blocks) - len(shown):,} more did not fit.)"])
        shown.append(block)
    return "\n".join(shown)
