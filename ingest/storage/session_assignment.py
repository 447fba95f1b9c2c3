"""Where the spans of a trace live: which session, and how well that is known.

A trace's group outranks a session that one of its spans names, which outranks the trace's own id. When a better source
arrives, the trace moves. In a trace without a group each span lives in the session that its first telling names, and
stays there whatever a later telling says; those that live apart from their trace are listed as strays. Reads and
writes under the project's lock, so nothing changes in between.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import date
from typing import Any

import psycopg

from ingest.decoding.records import Span, Trace, microseconds, moment
from ingest.models import Trace as TraceRow
from ingest.models import session_key, trace_key
from ingest.storage.merge import merge_traces

Cursor = psycopg.AsyncCursor[Any]
# The spans of a commit by their trace and the session that they name.
Told = dict[tuple[str, str | None], list[Span]]

# Traces and sessions are distributed by different keys (Citus), so the traces are looked up first, then their sessions.
_TRACES = """
WITH t AS MATERIALIZED (SELECT * FROM ingest_trace WHERE trace_key = ANY(%s))
SELECT t.trace_key, t.session_key, t.source, t.is_mixed, t.name, t.started_at, t.ended_at, t.metadata::text,
  s.day
FROM t JOIN ingest_session s ON s.session_key = t.session_key
"""
_PUT_TRACES = """
INSERT INTO ingest_trace (project_id, seq, trace_key, trace_id, session_key, source, is_mixed, name, started_at,
  ended_at, metadata)
SELECT %s, %s, k, id, s, source, is_mixed, name, started_at, ended_at, metadata FROM unnest(%s::uuid[], %s::text[],
  %s::uuid[], %s::smallint[], %s::boolean[], %s::text[], %s::timestamptz[], %s::timestamptz[], %s::jsonb[])
  t (k, id, s, source, is_mixed, name, started_at, ended_at, metadata)
ON CONFLICT (trace_key) DO UPDATE SET session_key = EXCLUDED.session_key, source = EXCLUDED.source,
  is_mixed = EXCLUDED.is_mixed, seq = EXCLUDED.seq, name = EXCLUDED.name, started_at = EXCLUDED.started_at,
  ended_at = EXCLUDED.ended_at, metadata = EXCLUDED.metadata
"""

_STRAYS = "SELECT trace_key, span_id, session_key FROM ingest_stray WHERE trace_key = ANY(%s) AND span_id = ANY(%s)"
_PUT_STRAYS = """
INSERT INTO ingest_stray (trace_key, span_id, session_key)
SELECT * FROM unnest(%s::uuid[], %s::text[], %s::uuid[]) ON CONFLICT DO NOTHING
"""
_TAKE_STRAYS = "DELETE FROM ingest_stray WHERE trace_key = ANY(%s) RETURNING trace_key, session_key"
_AT_HOME = """
SELECT s.trace_id, s.span_id FROM unnest(%s::uuid[], %s::date[], %s::text[], %s::text[]) k (a, b, c, d)
JOIN ingest_span s ON (s.session_key, s.session_day, s.trace_id, s.span_id) = (k.a, k.b, k.c, k.d)
"""


@dataclass(slots=True)
class Home:
    """Where a trace's spans live, and how well that is known."""

    key: uuid.UUID
    session_key: uuid.UUID
    session_id: str | None
    source: int
    is_mixed: bool = False
    told: Trace | None = None
    is_changed: bool = True


@dataclass(frozen=True, slots=True)
class Move:
    """A trace whose spans have to go from one session to another."""

    trace_id: str
    old: uuid.UUID
    new: uuid.UUID


async def find(
    cursor: Cursor, project_id: int, told: Told, traces: dict[str, Trace]
) -> tuple[dict[str, Home], list[Move], dict[uuid.UUID, date]]:
    """Where each trace lives now, which traces have to move there, and the days of the sessions they lived in."""
    named: dict[str, str] = {}
    is_mixed: set[str] = set()
    for trace_id, session_id in told:
        if session_id and named.setdefault(trace_id, session_id) != session_id:
            is_mixed.add(trace_id)
    keys = {trace_id: trace_key(project_id, trace_id) for trace_id in {*traces, *(trace_id for trace_id, _ in told)}}
    await cursor.execute(_TRACES, (list(keys.values()),))
    known = {row[0]: row for row in await cursor.fetchall()}
    homes: dict[str, Home] = {}
    moves: list[Move] = []
    for trace_id, key in keys.items():
        trace = traces.get(trace_id)
        new = _told(project_id, trace_id, key, trace, named.get(trace_id))
        new.is_mixed = trace_id in is_mixed
        if (row := known.get(key)) is None:
            homes[trace_id] = new
            continue
        homes[trace_id] = home = _settled(row, new, trace, trace_id)
        if home.session_key != row[1]:
            moves.append(Move(trace_id, row[1], home.session_key))
    moves += await _gathered_in(cursor, homes, known)
    return homes, moves, {row[1]: row[8] for row in known.values()}


async def _gathered_in(cursor: Cursor, homes: dict[str, Home], known: dict[uuid.UUID, tuple[Any, ...]]) -> list[Move]:
    """The moves of strays whose trace has a group now."""
    grouped = {
        home.key: trace_id
        for trace_id, home in homes.items()
        if home.source == TraceRow.Source.GROUP and home.key in known and known[home.key][2] != home.source
    }
    if not grouped:
        return []
    await cursor.execute(_TAKE_STRAYS, (list(grouped),))
    left = {(grouped[key], session) for key, session in await cursor.fetchall()}
    return [
        Move(trace_id, session, homes[trace_id].session_key)
        for trace_id, session in sorted(left)
        if session != homes[trace_id].session_key
    ]


def _told(project_id: int, trace_id: str, key: uuid.UUID, told: Trace | None, named: str | None) -> Home:
    source = TraceRow.Source
    if told is not None and told.group_id:
        session_id, how = told.group_id, source.GROUP
    elif told is not None and told.session_id:
        session_id, how = told.session_id, source.SPAN
    elif named:
        session_id, how = named, source.SPAN
    else:
        session_id, how = trace_id, source.TRACE_ID
    return Home(key, session_key(project_id, session_id), session_id, int(how), told=told)


def _settled(row: tuple[Any, ...], new: Home, told: Trace | None, trace_id: str) -> Home:
    _, old_key, old_source, old_mixed, name, started_at, ended_at, metadata, _ = row
    stored = Trace(
        trace_id,
        name,
        None,
        None,
        None if started_at is None else microseconds(started_at),
        None if ended_at is None else microseconds(ended_at),
        metadata.encode(),
    )
    merged = stored
    if told is not None:
        # Of the session only `source` is kept.
        nameless = Trace(trace_id, told.name, None, None, told.started_us, told.ended_us, told.metadata)
        merged = merge_traces(stored, nameless)
    if new.source > old_source:
        return Home(new.key, new.session_key, new.session_id, new.source, new.is_mixed or old_mixed, merged)
    differs = new.source == old_source == TraceRow.Source.SPAN and new.session_key != old_key
    mixed = old_mixed or new.is_mixed or differs
    return Home(
        new.key, old_key, None, old_source, mixed, merged, is_changed=merged is not stored or mixed != old_mixed
    )


async def place(
    cursor: Cursor, project_id: int, told: Told, homes: dict[str, Home], days: dict[uuid.UUID, date]
) -> dict[uuid.UUID, list[Span]]:
    """The spans of each session: a span lives in its trace's group, else where it was, else in the session it names."""
    placed: dict[uuid.UUID, list[Span]] = {}
    unsettled: list[tuple[Span, uuid.UUID]] = []
    for (trace_id, session_id), group in told.items():
        home = homes[trace_id]
        key = home.session_key
        if session_id and home.source != TraceRow.Source.GROUP:
            key = session_key(project_id, session_id)
        if key != home.session_key and not home.is_mixed:
            home.is_mixed = home.is_changed = True
        if home.is_mixed and home.source != TraceRow.Source.GROUP:
            unsettled += [(span, key) for span in group]
        else:
            placed.setdefault(key, []).extend(group)
    if unsettled:
        for span, key in await _settled_apart(cursor, unsettled, homes, days):
            placed.setdefault(key, []).append(span)
    return placed


async def _settled_apart(
    cursor: Cursor, unsettled: list[tuple[Span, uuid.UUID]], homes: dict[str, Home], days: dict[uuid.UUID, date]
) -> list[tuple[Span, uuid.UUID]]:
    """Spans of traces that serve several sessions, each with the session it was stored in, else the one given."""
    trace_keys = [homes[span.trace_id].key for span, _ in unsettled]
    await cursor.execute(_STRAYS, (list(set(trace_keys)), [span.span_id for span, _ in unsettled]))
    strays = {(trace, span_id): session for trace, span_id, session in await cursor.fetchall()}
    at_home = await _at_home(cursor, unsettled, homes, days)
    settled = []
    new = []
    for trace, (span, named) in zip(trace_keys, unsettled, strict=True):
        home = homes[span.trace_id].session_key
        key = strays.get((trace, span.span_id))
        if key is None:
            key = home if (span.trace_id, span.span_id) in at_home else named
            if key != home:
                new.append((trace, span.span_id, key))
        settled.append((span, key))
    if new:
        await cursor.execute(_PUT_STRAYS, tuple(map(list, zip(*new, strict=True))))
    return settled


async def _at_home(
    cursor: Cursor, unsettled: list[tuple[Span, uuid.UUID]], homes: dict[str, Home], days: dict[uuid.UUID, date]
) -> set[tuple[str, str]]:
    """Those that are stored where their trace lives, though they name another session now."""
    asked = [
        (home.session_key, days[home.session_key], span.trace_id, span.span_id)
        for span, key in unsettled
        if (home := homes[span.trace_id]).session_key != key and home.session_key in days
    ]
    if not asked:
        return set()
    await cursor.execute(_AT_HOME, tuple(map(list, zip(*asked, strict=True))))
    return set(await cursor.fetchall())


def names(project_id: int, told: Told, homes: dict[str, Home]) -> dict[uuid.UUID, str]:
    """The ids of the sessions that may have to be made."""
    found = {home.session_key: home.session_id for home in homes.values() if home.session_id is not None}
    for session_id in {session_id for _, session_id in told if session_id}:
        found[session_key(project_id, session_id)] = session_id
    return found


async def put(cursor: Cursor, project_id: int, homes: dict[str, Home], seq: int) -> list[tuple[uuid.UUID, Trace]]:
    """Write the traces that changed; each with the session it lives in."""
    changed: list[tuple[uuid.UUID, Trace]] = []
    traces = []
    for trace_id, home in homes.items():
        if not home.is_changed:
            continue
        told = home.told or Trace(trace_id, "", None, None, None, None, b"{}")
        changed.append((home.session_key, told))
        about = (told.name, moment(told.started_us), moment(told.ended_us), told.metadata.decode())
        traces.append((home.key, trace_id, home.session_key, home.source, home.is_mixed, *about))
    if traces:
        await cursor.execute(_PUT_TRACES, (project_id, seq, *map(list, zip(*traces, strict=True))))
    return changed
