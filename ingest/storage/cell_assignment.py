"""Assign the records of a commit to the cells of their project, if it has more than one.

A session is in one cell, and a trace is in each cell that has spans of it. The commit holds the locks of all cells of
the project, so nothing that is read here changes before it is written, and a trace whose session turns out to be in
another cell moves there. Within a cell, `session_assignment` decides.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from ingest.cells import cell_of_new, project_of
from ingest.decoding.records import Record, Span, Trace
from ingest.decoding.timestamps import to_microseconds
from ingest.decoding.tool_arguments import arguments_hash
from ingest.models import Trace as TraceRow
from ingest.models import session_key, trace_key
from ingest.storage import messages, sequence
from ingest.storage.commit import check_cell_count
from ingest.storage.database.pipeline import Pipeline
from ingest.storage.figures.rebuild import SPAN_COLUMNS, read_span
from ingest.storage.payloads import decode, decode_data

SpanKey = tuple[str, str]

_TRACES = """
SELECT cell, trace_id, trace_key, session_key, source FROM ingest_trace
WHERE cell = ANY(%s) AND trace_key = ANY(%s::uuid[]) ORDER BY source DESC, seq
"""
# A session may have transcripts before it has spans.
_SESSIONS = """
SELECT cell, session_key FROM ingest_session WHERE cell = ANY(%s) AND session_key = ANY(%s::uuid[])
UNION SELECT cell, session_key FROM ingest_chainlink WHERE cell = ANY(%s) AND session_key = ANY(%s::uuid[])
"""
_SESSIONS_OF_TRACES = """
SELECT s.cell, s.session_key, s.day FROM ingest_session s WHERE s.cell = ANY(%s) AND s.session_key IN (
  SELECT session_key FROM ingest_trace WHERE cell = ANY(%s) AND trace_key = ANY(%s::uuid[])
  UNION ALL SELECT session_key FROM ingest_spansession WHERE cell = ANY(%s) AND trace_key = ANY(%s::uuid[]))
"""
_IN_SESSIONS = (
    "cell = ANY(%s) AND session_key = ANY(%s::uuid[]) AND session_day = ANY(%s::date[]) AND trace_id = ANY(%s)"
)
_PLACES = f"SELECT cell, trace_id, span_id FROM ingest_span WHERE {_IN_SESSIONS} AND span_id = ANY(%s)"  # noqa: S608
_TAKE_SPANS = f"DELETE FROM ingest_span WHERE {_IN_SESSIONS} RETURNING {SPAN_COLUMNS}, payload"  # noqa: S608
_TAKE_TRACE = """
DELETE FROM ingest_trace WHERE cell = %s AND trace_key = %s
RETURNING trace_id, name, started_at, ended_at, metadata::text
"""
_DELETE_SPAN_SESSIONS = "DELETE FROM ingest_spansession WHERE cell = %s AND trace_key = %s"
_COPY_MESSAGES = """
INSERT INTO ingest_message (cell, hash, day, size, body)
SELECT %s::bigint, hash, day, size, body FROM ingest_message WHERE cell = %s AND hash = ANY(%s) ON CONFLICT DO NOTHING
"""


@dataclass(slots=True)
class Assigned:
    """Records by cell, and the sessions that lost a trace to another cell, by cell, with their days."""

    records: dict[int, list[Record]] = field(default_factory=dict)
    reduced: dict[int, dict[uuid.UUID, date]] = field(default_factory=dict)

    def add(self, cell: int, records: Iterable[Record]) -> None:
        self.records.setdefault(cell, []).extend(records)


@dataclass(frozen=True, slots=True)
class _Target:
    """The cell of a trace. With a group, it is that of all its spans."""

    cell: int
    has_group: bool


@dataclass(frozen=True, slots=True)
class _Places:
    """The cells of the traces and sessions that records name, read under the locks of all cells of the project."""

    cells: list[int]
    trace_keys: dict[str, uuid.UUID]
    sessions: dict[str, int]
    """The cells of sessions by id, of new ones too."""
    traces: dict[str, list[tuple[int, int]]]
    """The cells that have a row of a stored trace, with the source of its session there. The best source is first."""

    def cell_of(self, record: Record, target: _Target) -> int:
        """Return the cell that a record alone would go to."""
        return self.sessions[record.session_id] if record.session_id else target.cell


async def assign(pipeline: Pipeline, cells: list[int], records: Sequence[Record]) -> Assigned:
    """Return the records by cell, in the caller's transaction, and move stored traces that belong to another cell."""
    names = _names(records)
    places = await _find_places(pipeline, cells, records, names)
    assigned = Assigned()
    targets = {
        trace_id: await _assign_trace(pipeline, places, trace_id, source, session_id, assigned)
        for trace_id, (source, session_id) in names.items()
    }
    span_places = await _find_spans(pipeline, records, targets, places)
    for record in records:
        target = targets[record.trace_id]
        cell = target.cell
        if type(record) is Span and not target.has_group:
            cell = span_places.get((record.trace_id, record.span_id), places.cell_of(record, target))
        assigned.add(cell, [record])
    return assigned


async def _find_places(
    pipeline: Pipeline, cells: list[int], records: Sequence[Record], names: dict[str, tuple[int, str]]
) -> _Places:
    """Lock all cells of the project, and return where its sessions and traces are."""
    project_id = project_of(cells[0])
    named_sessions = {session_id for _, session_id in names.values()}
    named_sessions |= {record.session_id for record in records if type(record) is Span and record.session_id}
    session_keys = {session_id: session_key(project_id, session_id) for session_id in named_sessions}
    trace_keys = {trace_id: trace_key(project_id, trace_id) for trace_id in names}
    keys = list(session_keys.values())
    *locks, trace_rows, session_rows = await pipeline.fetch(
        *(sequence.take(cell, 0) for cell in cells),
        (_TRACES, (cells, list(trace_keys.values()))),
        (_SESSIONS, (cells, keys, cells, keys)),
    )
    for ((_, cell_count),) in locks:
        check_cell_count(project_id, cell_count)
    stored = {key: cell for cell, key in session_rows}
    sessions = {session_id: stored.get(key, cell_of_new(cells, key)) for session_id, key in session_keys.items()}
    traces: dict[str, list[tuple[int, int]]] = {}
    for cell, trace_id, _, _, source in trace_rows:
        traces.setdefault(trace_id, []).append((cell, source))
    return _Places(cells, trace_keys, sessions, traces)


async def _assign_trace(
    pipeline: Pipeline, places: _Places, trace_id: str, source: int, session_id: str, assigned: Assigned
) -> _Target:
    """Return the cell of a trace. If its session was not known as well before, move it there from the other cells."""
    rows = places.traces.get(trace_id, [])
    cell, best = rows[0] if rows else (places.sessions[session_id], -1)
    if source > best:
        cell = places.sessions[session_id]
        for old_cell, _ in rows:
            if old_cell != cell:
                await _move(pipeline, places.trace_keys[trace_id], old_cell, cell, assigned)
        places.traces[trace_id] = [row for row in rows if row[0] == cell]
    return _Target(cell, has_group=max(source, best) == TraceRow.Source.GROUP)


def _names(records: Iterable[Record]) -> dict[str, tuple[int, str]]:
    """Return the best source and the session that the records name for each trace."""
    names: dict[str, tuple[int, str]] = {}
    for record in records:
        source, session_id = TraceRow.Source.TRACE_ID, record.trace_id
        if type(record) is Trace and record.group_id:
            source, session_id = TraceRow.Source.GROUP, record.group_id
        elif record.session_id:
            source, session_id = TraceRow.Source.SPAN, record.session_id
        if record.trace_id not in names or names[record.trace_id][0] < source:
            names[record.trace_id] = int(source), session_id
    return names


def _may_be_elsewhere(span: Span, target: _Target, places: _Places) -> bool:
    """Return True if the span may be stored in another cell than the one that it alone would go to."""
    rows = places.traces.get(span.trace_id, [])
    if not rows or target.has_group:
        return False
    return len(rows) > 1 or rows[0][0] != places.cell_of(span, target)


async def _find_spans(
    pipeline: Pipeline, records: Sequence[Record], targets: dict[str, _Target], places: _Places
) -> dict[SpanKey, int]:
    """Return the cells of stored spans that may be in another cell than the one that the record alone would go to."""
    unsure = {
        (record.trace_id, record.span_id)
        for record in records
        if type(record) is Span and _may_be_elsewhere(record, targets[record.trace_id], places)
    }
    if not unsure:
        return {}
    cells, keys = places.cells, [places.trace_keys[trace_id] for trace_id in {trace_id for trace_id, _ in unsure}]
    (sessions,) = await pipeline.fetch((_SESSIONS_OF_TRACES, (cells, cells, keys, cells, keys)))
    if not sessions:
        return {}
    session_keys, days = [key for _, key, _ in sessions], {day for _, _, day in sessions}
    trace_ids, span_ids = map(list, zip(*unsure, strict=True))
    (span_rows,) = await pipeline.fetch((_PLACES, (cells, session_keys, list(days), trace_ids, span_ids)))
    return {(trace_id, span_id): cell for cell, trace_id, span_id in span_rows}


async def _move(pipeline: Pipeline, key: uuid.UUID, old_cell: int, new_cell: int, assigned: Assigned) -> None:
    """Take a trace out of a cell, and add its records to those of another one."""
    (sessions,) = await pipeline.fetch((_SESSIONS_OF_TRACES, ([old_cell], [old_cell], [key], [old_cell], [key])))
    days: dict[uuid.UUID, date] = {session: day for _, session, day in sessions}
    ((row,),) = await pipeline.fetch((_TAKE_TRACE, (old_cell, key)))
    trace_id, name, started_at, ended_at, metadata = row
    in_sessions = ([old_cell], list(days), list(set(days.values())), [trace_id])
    (rows,) = await pipeline.fetch((_TAKE_SPANS, in_sessions))
    pipeline.queue(_DELETE_SPAN_SESSIONS, (old_cell, key))
    spans = [_read(row) for row in rows]
    digests = {digest for span in spans for digest in messages.references(decode(span.payload))}
    if digests:
        pipeline.queue(_COPY_MESSAGES, (new_cell, old_cell, list(digests)))
    trace = Trace(trace_id, name, None, None, _microseconds(started_at), _microseconds(ended_at), metadata.encode())
    assigned.add(new_cell, [trace, *spans])
    assigned.reduced.setdefault(old_cell, {}).update(days)


def _read(row: tuple[Any, ...]) -> Span:
    span = read_span(row)
    span.arguments_hash = arguments_hash(span.kind, decode_data(span.data), decode(span.payload))
    return span


def _microseconds(at: Any) -> int | None:
    return None if at is None else to_microseconds(at)
