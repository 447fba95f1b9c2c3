"""Cells: the parts in which growing tables are stored.

A cell is a project, or one of the cells of a large project. Its number is in the column `cell`, the first of each key
of a growing table. A commit writes to one cell, and a query names the cell it reads, so on a cluster each takes place
on one node. What is small and read everywhere has no cell: projects, users, keys, rules and prices.

A project starts with one cell. `COUNTS` has how many it had over time. A session is in the cell that followed from the
count when the session was new, so it has one candidate for each count.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

MAX_PER_PROJECT = 1024
AUDIT_LOG = 0
"""The cell of the audit log. It is one chain over all projects, and no project has the id 0."""

_SESSION = ("cell", "session_key")
KEYS: Mapping[str, tuple[str, ...]] = {
    "ingest_cell": ("cell",),
    "ingest_session": _SESSION,
    "ingest_span": (*_SESSION, "session_day", "trace_id", "span_id"),
    "ingest_trace": ("cell", "trace_key"),
    "ingest_stray": ("cell", "trace_key", "span_id"),
    "ingest_label": (*_SESSION, "key", "value"),
    "ingest_message": ("cell", "hash"),
    "ingest_activity": (*_SESSION, "hour"),
    "ingest_trend": ("cell", "hour", "model"),
    "ingest_usage": (*_SESSION, "hour", "model", "provider", "is_summary", "prompt_size"),
    "ingest_hourlyusage": ("cell", "hour", "model", "provider", "is_summary", "prompt_size"),
    "ingest_search": (*_SESSION, "session_day", "item"),
    "ingest_searchstate": ("cell",),
    "ingest_content": ("cell", "hash"),
    "ingest_transcript": (*_SESSION, "step"),
    "ingest_chainlink": (*_SESSION, "position"),
    "viewer_comment": ("cell", "id"),
    "viewer_mention": ("cell", "id"),
    "viewer_bookmark": ("cell", "id"),
    "viewer_alert": ("cell", "id"),
    "viewer_alertdelivery": ("cell", "id"),
    "viewer_alertcursor": ("cell",),
    "viewer_auditentry": ("cell", "position"),
}
"""The primary key of each growing table."""
TABLES = tuple(KEYS)

_ONE = (1,)
COUNTS: dict[int, tuple[int, ...]] = {}
"""The numbers of cells that projects had, oldest first, of projects that had more than one."""


def project_of(cell: int) -> int:
    return cell // MAX_PER_PROJECT


def cells_of(project_id: int) -> tuple[int, ...]:
    """Return all cells of a project."""
    first = project_id * MAX_PER_PROJECT
    return tuple(range(first, first + max(COUNTS.get(project_id, _ONE))))


def candidates(project_id: int, session_key: uuid.UUID) -> tuple[int, ...]:
    """Return the cells that a session may be in, newest first. If it is in none of them, it belongs to the first."""
    first = project_id * MAX_PER_PROJECT
    counts = COUNTS.get(project_id, _ONE)
    return tuple(dict.fromkeys(first + session_key.int % count for count in reversed(counts)))
