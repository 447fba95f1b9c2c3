"""Assign traces and their spans to sessions.

A trace's group takes precedence over a session that one of its spans names, which takes precedence over the trace's own
id. When a better source arrives, the spans of the trace move. In a trace without a group, each span belongs to the
session that its first event names and stays there. `ingest_spansession` has the spans whose session is not their
trace's.

Everything runs under the lock of the cell, so nothing changes between reading and writing.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import date
from typing import Any

from ingest.cells import project_of
from ingest.decoding.clean import EMPTY, CleanText
from ingest.decoding.records import Span, Trace
from ingest.decoding.timestamps import to_datetime, to_microseconds
from ingest.models import Trace as TraceRow
from ingest.models import session_key, trace_key
from ingest.storage.database.pg_arrays import encode_array
from ingest.storage.database.pipeline import Pipeline, Query, Rows
from ingest.storage.merge import merge_traces

SpanGroups = dict[tuple[CleanText, CleanText | None], list[Span]]
"""Spans of a commit by their trace and the session they name."""
SpanWithSession = tuple[Span, uuid.UUID]

_FIND_TRACES = """
WITH t AS MATERIALIZED (SELECT * FROM ingest_trace WHERE cell = %s AND trace_key = ANY(%s::uuid[]))
SELECT t.trace_key, t.session_key, t.source, t.is_mixed, t.name, t.started_at, t.ended_at, t.metadata::text,
  s.day, s.trend_model
FROM t JOIN ingest_session s ON s.session_key = t.session_key
WHERE s.cell = %s
"""
_UPSERT_TRACES = """
INSERT INTO ingest_trace (cell, seq, trace_key, trace_id, session_key, source, is_mixed, name, started_at,
  ended_at, metadata)
VALUES (%s::bigint, %s::bigint, unnest(%s::uuid[]), unnest(%s::text[]), unnest(%s::uuid[]), unnest(%s::smallint[]),
  unnest(%s::boolean[]), unnest(%s::text[]), unnest(%s::timestamptz[]), unnest(%s::timestamptz[]), unnest(%s::jsonb[]))
ON CONFLICT (cell, trace_key) DO UPDATE SET session_key = EXCLUDED.session_key, source = EXCLUDED.source,
  is_mixed = EXCLUDED.is_mixed, seq = EXCLUDED.seq, name = EXCLUDED.name, started_at = EXCLUDED.started_at,
  ended_at = EXCLUDED.ended_at, metadata = EXCLUDED.metadata
"""

_FIND_SPAN_SESSIONS = """
SELECT trace_key, span_id, session_key FROM ingest_spansession
WHERE cell = %s AND trace_key = ANY(%s) AND span_id = ANY(%s)
"""
_INSERT_SPAN_SESSIONS = """
INSERT INTO ingest_spansession (cell, trace_key, span_id, session_key)
VALUES (%s::bigint, unnest(%s::uuid[]), unnest(%s::text[]), unnest(%s::uuid[])) ON CONFLICT DO NOTHING
"""
_DELETE_SPAN_SESSIONS = """
DELETE FROM ingest_spansession WHERE cell = %s AND trace_key = ANY(%s) RETURNING trace_key, session_key
"""
_FIND_SPANS = """
SELECT s.trace_id, s.span_id FROM unnest(%s::uuid[], %s::date[], %s::text[], %s::text[]) k (a, b, c, d)
JOIN ingest_span s ON (s.session_key, s.session_day, s.trace_id, s.span_id) = (k.a, k.b, k.c, k.d)
WHERE s.cell = %s
"""


@dataclass(slots=True)
class Assignment:
    """The session of a trace, and the source from which it is known."""

    trace_key: uuid.UUID
    session_key: uuid.UUID
    session_id: CleanText | None
    source: int
    is_mixed: bool = False
    trace: Trace | None = None
    is_changed: bool = True


@dataclass(frozen=True, slots=True)
class Move:
    """A trace whose spans move from one session to another."""

    trace_id: str
    old_key: uuid.UUID
    new_key: uuid.UUID


def new_assignments(project_id: int, groups: SpanGroups, traces: dict[CleanText, Trace]) -> dict[CleanText, Assignment]:
    """Return the assignments that follow from the commit's own records, by trace id."""
    named_sessions: dict[CleanText, CleanText] = {}
    mixed_traces: set[str] = set()
    for trace_id, session_id in groups:
        if session_id and named_sessions.setdefault(trace_id, session_id) != session_id:
            mixed_traces.add(trace_id)
    trace_ids = {*traces, *(trace_id for trace_id, _ in groups)}
    assignments = {}
    for trace_id in trace_ids:
        new = _new_assignment(project_id, trace_id, traces.get(trace_id), named_sessions.get(trace_id))
        new.is_mixed = trace_id in mixed_traces
        assignments[trace_id] = new
    return assignments


def find_traces(cell: int, assignments: dict[CleanText, Assignment]) -> Query:
    """Return the query for the stored rows of traces."""
    # The cell of both tables, so that a cluster sees that it holds all of the query.
    return _FIND_TRACES, (cell, encode_array(assignment.trace_key for assignment in assignments.values()), cell)


async def assign_traces(
    pipeline: Pipeline, cell: int, new: dict[CleanText, Assignment], rows: Rows
) -> tuple[dict[CleanText, Assignment], list[Move]]:
    """Assign each trace to a session, given the stored rows of traces.

    Return the assignments by trace id, and the moves they require.
    """
    stored_rows = {row[0]: row for row in rows}
    assignments: dict[CleanText, Assignment] = {}
    moves: list[Move] = []
    for trace_id, assignment in new.items():
        row = stored_rows.get(assignment.trace_key)
        if row is None:
            assignments[trace_id] = assignment
            continue
        assignments[trace_id] = merged = _merge_assignment(row, assignment, trace_id)
        if merged.session_key != row[1]:
            moves.append(Move(trace_id, row[1], merged.session_key))
    moves += await _gather_spans(pipeline, cell, assignments, stored_rows)
    return assignments, moves


async def _gather_spans(
    pipeline: Pipeline,
    cell: int,
    assignments: dict[CleanText, Assignment],
    stored_rows: dict[uuid.UUID, tuple[Any, ...]],
) -> list[Move]:
    """Return the moves of spans that are in other sessions although their trace has a group now."""
    newly_grouped = {
        assignment.trace_key: trace_id
        for trace_id, assignment in assignments.items()
        if assignment.source == TraceRow.Source.GROUP
        and assignment.trace_key in stored_rows
        and stored_rows[assignment.trace_key][2] != assignment.source
    }
    if not newly_grouped:
        return []
    (rows,) = await pipeline.fetch((_DELETE_SPAN_SESSIONS, (cell, list(newly_grouped))))
    old_sessions = {(newly_grouped[key], session) for key, session in rows}
    return [
        Move(trace_id, session, assignments[trace_id].session_key)
        for trace_id, session in sorted(old_sessions)
        if session != assignments[trace_id].session_key
    ]


def _new_assignment(
    project_id: int, trace_id: CleanText, trace: Trace | None, named_session: CleanText | None
) -> Assignment:
    if trace is not None and trace.group_id:
        session_id, source = trace.group_id, TraceRow.Source.GROUP
    elif trace is not None and trace.session_id:
        session_id, source = trace.session_id, TraceRow.Source.SPAN
    elif named_session:
        session_id, source = named_session, TraceRow.Source.SPAN
    else:
        session_id, source = trace_id, TraceRow.Source.TRACE_ID
    key = trace_key(project_id, trace_id)
    return Assignment(key, session_key(project_id, session_id), session_id, int(source), trace=trace)


def _merge_assignment(row: tuple[Any, ...], new: Assignment, trace_id: CleanText) -> Assignment:
    """Merge the stored assignment of a trace with a new one."""
    _, old_key, old_source, was_mixed, name, started_at, ended_at, metadata, _, _ = row
    trace = new.trace
    stored = Trace(
        trace_id,
        name,
        None,
        None,
        None if started_at is None else to_microseconds(started_at),
        None if ended_at is None else to_microseconds(ended_at),
        metadata.encode(),
    )
    merged = stored
    if trace is not None:
        # The row has no group and session of its own, only `source`.
        without_session = Trace(trace_id, trace.name, None, None, trace.started_us, trace.ended_us, trace.metadata)
        merged = merge_traces(stored, without_session)
    if new.source > old_source:
        is_mixed = new.is_mixed or was_mixed
        return Assignment(new.trace_key, new.session_key, new.session_id, new.source, is_mixed, merged)
    names_other_session = new.source == old_source == TraceRow.Source.SPAN and new.session_key != old_key
    is_mixed = was_mixed or new.is_mixed or names_other_session
    is_changed = merged is not stored or is_mixed != was_mixed
    return Assignment(new.trace_key, old_key, None, old_source, is_mixed, merged, is_changed)


async def assign_spans(
    pipeline: Pipeline,
    cell: int,
    groups: SpanGroups,
    assignments: dict[CleanText, Assignment],
    days: dict[uuid.UUID, date],
) -> dict[uuid.UUID, list[Span]]:
    """Return the spans of each session.

    A span belongs to its trace's group, otherwise to the session where it is stored, otherwise to the one it names.
    """
    project_id = project_of(cell)
    by_session: dict[uuid.UUID, list[Span]] = {}
    mixed: list[SpanWithSession] = []
    for (trace_id, session_id), spans in groups.items():
        assignment = assignments[trace_id]
        key = assignment.session_key
        if session_id and assignment.source != TraceRow.Source.GROUP:
            key = session_key(project_id, session_id)
        if key != assignment.session_key and not assignment.is_mixed:
            assignment.is_mixed = assignment.is_changed = True
        if assignment.is_mixed and assignment.source != TraceRow.Source.GROUP:
            mixed += [(span, key) for span in spans]
        else:
            by_session.setdefault(key, []).extend(spans)
    if mixed:
        for span, key in await _assign_mixed(pipeline, cell, mixed, assignments, days):
            by_session.setdefault(key, []).append(span)
    return by_session


async def _assign_mixed(
    pipeline: Pipeline,
    cell: int,
    spans: list[SpanWithSession],
    assignments: dict[CleanText, Assignment],
    days: dict[uuid.UUID, date],
) -> list[SpanWithSession]:
    """Assign spans of traces with several sessions: each to the session where it is stored, else to the one given."""
    trace_keys = [assignments[span.trace_id].trace_key for span, _ in spans]
    span_ids = [span.span_id for span, _ in spans]
    (rows,) = await pipeline.fetch((_FIND_SPAN_SESSIONS, (cell, list(set(trace_keys)), span_ids)))
    stored_sessions = {(key, span_id): session for key, span_id, session in rows}
    stored_with_trace = await _find_stored_with_trace(pipeline, cell, spans, assignments, days)
    assigned = []
    new_rows = []
    for key, (span, named_session) in zip(trace_keys, spans, strict=True):
        trace_session = assignments[span.trace_id].session_key
        session = stored_sessions.get((key, span.span_id))
        if session is None:
            is_stored = (span.trace_id, span.span_id) in stored_with_trace
            session = trace_session if is_stored else named_session
            if session != trace_session:
                new_rows.append((key, span.span_id, session))
        assigned.append((span, session))
    if new_rows:
        pipeline.queue(_INSERT_SPAN_SESSIONS, (cell, *map(list, zip(*new_rows, strict=True))))
    return assigned


async def _find_stored_with_trace(
    pipeline: Pipeline,
    cell: int,
    spans: list[SpanWithSession],
    assignments: dict[CleanText, Assignment],
    days: dict[uuid.UUID, date],
) -> set[tuple[str, str]]:
    """Return the spans that are stored in their trace's session although they name another one now."""
    keys = [
        (assignment.session_key, days[assignment.session_key], span.trace_id, span.span_id)
        for span, session in spans
        if (assignment := assignments[span.trace_id]).session_key != session and assignment.session_key in days
    ]
    if not keys:
        return set()
    (rows,) = await pipeline.fetch((_FIND_SPANS, (*map(list, zip(*keys, strict=True)), cell)))
    return set(rows)


def session_ids(
    project_id: int, groups: SpanGroups, assignments: dict[CleanText, Assignment]
) -> dict[uuid.UUID, CleanText]:
    """Return the ids, by key, of the sessions that may have to be created."""
    ids = {
        assignment.session_key: assignment.session_id
        for assignment in assignments.values()
        if assignment.session_id is not None
    }
    for session_id in {session_id for _, session_id in groups if session_id}:
        ids[session_key(project_id, session_id)] = session_id
    return ids


def store_traces(
    pipeline: Pipeline, cell: int, assignments: dict[CleanText, Assignment], seq: int
) -> list[tuple[uuid.UUID, Trace]]:
    """Write the traces that changed, and return each with its session."""
    changed: list[tuple[uuid.UUID, Trace]] = []
    rows = []
    for trace_id, assignment in assignments.items():
        if not assignment.is_changed:
            continue
        trace = assignment.trace or Trace(trace_id, EMPTY, None, None, None, None, b"{}")
        changed.append((assignment.session_key, trace))
        rows.append(
            (
                assignment.trace_key,
                trace_id,
                assignment.session_key,
                assignment.source,
                assignment.is_mixed,
                trace.name,
                to_datetime(trace.started_us),
                to_datetime(trace.ended_us),
                trace.metadata.decode(),
            )
        )
    if rows:
        pipeline.queue(_UPSERT_TRACES, (cell, seq, *map(encode_array, zip(*rows, strict=True))))
    return changed
