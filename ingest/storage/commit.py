"""Write the records of one cell in one transaction: traces, sessions, spans and aggregates.

All writes to a cell hold its lock (`sequence`), so sequence numbers increase in commit order and nothing that is read
here can change before it is written. Spans are inserted with one COPY. A stored span for which new data arrived is
read, merged, deleted and inserted again.
"""

from __future__ import annotations

import uuid
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from compact.events.reading import REPORTING_KINDS

from ingest.cells import cells_of, learn, project_of
from ingest.decoding.clean import CleanText
from ingest.decoding.labels import Label
from ingest.decoding.records import Record, Span, Trace
from ingest.storage import labels, messages, sequence, session_assignment
from ingest.storage.database import copy_rows
from ingest.storage.database.pg_arrays import encode_array
from ingest.storage.database.pipeline import Pipeline, Query
from ingest.storage.figures import usage
from ingest.storage.figures.aggregates import (
    INSERT_SESSIONS,
    UPDATE_SESSIONS,
    SessionDelta,
    update_parameters,
)
from ingest.storage.figures.rebuild import SPAN_COLUMNS, read_span, rebuild_session, run_in_pipeline
from ingest.storage.figures.shared_reports import correct, shared_reports
from ingest.storage.figures.trend_updates import update_trends
from ingest.storage.merge import merge, merge_traces
from ingest.storage.messages import KnownMessages
from ingest.storage.session_assignment import Move, SpanGroups

SpanKey = tuple[CleanText, CleanText]
SessionSpans = dict[uuid.UUID, list[Span]]
Deltas = dict[uuid.UUID, SessionDelta]
Days = dict[uuid.UUID, date]

_FIND_SESSIONS = """
SELECT session_key, day, trend_model FROM ingest_session WHERE cell = %s AND session_key = ANY(%s::uuid[])
"""
_FIND_SPANS = """
SELECT s.trace_id, s.span_id, s.parent_id, s.kind, s.name, s.status, s.started_at, s.ended_at, data, payload
FROM unnest(%s::uuid[], %s::date[], %s::text[], %s::text[]) k (a, b, c, d)
JOIN ingest_span s ON (s.session_key, s.session_day, s.trace_id, s.span_id) = (k.a, k.b, k.c, k.d)
WHERE s.cell = %s
"""
_DELETE_SPANS = """
DELETE FROM ingest_span s USING unnest(%s::uuid[], %s::date[], %s::text[], %s::text[]) k (a, b, c, d)
WHERE (s.session_key, s.session_day, s.trace_id, s.span_id) = (k.a, k.b, k.c, k.d) AND s.cell = %s
"""
_OF_TRACE = "cell = %s AND session_key = %s AND session_day = %s AND trace_id = %s"
_COUNT_SPANS = f"SELECT count(*) FROM ingest_span WHERE {_OF_TRACE}"  # noqa: S608 - a constant
# Citus cannot update the distribution column, so a move is a delete and an insert.
_MOVE_SPANS = f"""
WITH gone AS (DELETE FROM ingest_span WHERE {_OF_TRACE} RETURNING *)
INSERT INTO ingest_span (cell, session_key, session_day, seq, trace_id, span_id, parent_id, kind, name, status,
  started_at, ended_at, tokens, arguments_hash, data, payload)
SELECT cell, %s, %s, %s::bigint + row_number() OVER (), trace_id, span_id, parent_id, kind, name, status,
  started_at, ended_at, tokens, arguments_hash, data, payload
FROM gone ON CONFLICT DO NOTHING
"""  # noqa: S608 - a constant
_REPORTS = f"""
SELECT {SPAN_COLUMNS}, NULL FROM ingest_span
WHERE cell = %s AND session_key = %s AND session_day = %s AND trace_id = ANY(%s) AND kind = ANY(%s)
"""  # noqa: S608 - constants
_DELETE_EMPTY_SESSIONS = """
DELETE FROM ingest_session WHERE cell = %(cell)s AND session_key = ANY(%(keys)s) AND span_count = 0
  AND session_key NOT IN (
    SELECT session_key FROM ingest_trace WHERE cell = %(cell)s AND session_key = ANY(%(keys)s))
  AND session_key NOT IN (
    SELECT session_key FROM ingest_transcript WHERE cell = %(cell)s AND session_key = ANY(%(keys)s))
"""
# About a hundred rows.
_COPY_CHUNK_PIECES = 700
_COPY_SPANS = f"COPY ingest_span ({copy_rows.COLUMNS}) FROM STDIN (FORMAT BINARY)"


@dataclass(frozen=True, slots=True)
class SharedReports:
    """Spans of a session that a commit replaced and changed, and the traces of the shared reports among them."""

    trace_ids: set[str]
    replaced: list[Span]
    changed: list[Span]


@dataclass(slots=True)
class Committed:
    """Changes that a commit made in one cell."""

    cell: int
    seq: int = 0
    stored: int = 0
    sessions: set[uuid.UUID] = field(default_factory=set)
    created: set[uuid.UUID] = field(default_factory=set)
    opened: list[SpanKey] = field(default_factory=list)
    closed: list[SpanKey] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)
    shared_reports: dict[uuid.UUID, SharedReports] = field(default_factory=dict)
    day: date = field(default_factory=lambda: datetime.now(UTC).date())


class CellsChanged(Exception):
    """A project has another number of cells than this process knew. The commit starts again."""


def check_cell_count(project_id: int, count: int) -> None:
    """Raise `CellsChanged`, and remember the number, if a project has another number of cells than expected."""
    if count != len(cells_of(project_id)):
        learn([(project_id, count)])
        raise CellsChanged


@dataclass(slots=True)
class KnownSessions:
    """Days of the stored sessions that a commit changes, and those that trends count without a model."""

    days: Days = field(default_factory=dict)
    without_model: set[uuid.UUID] = field(default_factory=set)

    def add(self, rows: Iterable[tuple[uuid.UUID, date, str | None]]) -> None:
        for key, day, trend_model in rows:
            self.days[key] = day
            if trend_model == "":
                self.without_model.add(key)


async def write(
    pipeline: Pipeline,
    cell: int,
    records: Sequence[Record],
    *,
    maybe_stored: Container[SpanKey] | None,
    known_messages: KnownMessages,
) -> Committed:
    """Write `records` in the caller's transaction.

    `maybe_stored` has the spans that may already be in the table. None means that any span may be. If another span is
    there, the transaction fails with UniqueViolation.
    """
    project_id = project_of(cell)
    groups, traces = _group_records(records)
    new_assignments = session_assignment.new_assignments(project_id, groups, traces)
    session_ids = session_assignment.session_ids(project_id, groups, new_assignments)
    message_texts = known_messages.find_missing(cell, _message_texts(records), datetime.now(UTC).date())
    ((seq, cell_count),), trace_rows, session_rows, message_rows = await pipeline.fetch(
        # Each span has a number, and each session that changes without one.
        sequence.take(cell, 2 * len(records)),
        session_assignment.find_traces(cell, new_assignments),
        _find_sessions(cell, session_ids),
        (messages.FIND, (cell, list(message_texts))),
    )
    check_cell_count(project_id, cell_count)
    result = Committed(cell, seq, messages=list(message_texts))
    sessions = KnownSessions()
    sessions.add((row[1], row[8], row[9]) for row in trace_rows)
    sessions.add(session_rows)
    days = sessions.days
    assignments, moves = await session_assignment.assign_traces(pipeline, cell, new_assignments, trace_rows)
    spans = await session_assignment.assign_spans(pipeline, cell, groups, assignments, days)
    moved_keys = {key for move in moves for key in (move.old_key, move.new_key)}
    session_keys = {*spans, *(assignment.session_key for assignment in assignments.values()), *moved_keys}
    new_sessions = await _find_new_sessions(pipeline, cell, session_keys, session_ids, sessions)
    result.created = set(new_sessions)
    await _move_spans(pipeline, cell, moves, days)
    deltas: Deltas = {}
    changed_spans = await _merge_stored_spans(pipeline, cell, spans, days, deltas, maybe_stored, result)
    last_seqs = await _copy_spans(pipeline, cell, changed_spans, days, seq) if changed_spans else {}
    await _correct_compactions(pipeline, cell, result.shared_reports, days, deltas)
    # Statements after COPY are sent together. One before it would have to be waited for.
    _store_messages(pipeline, result, message_texts, {bytes(digest) for (digest,) in message_rows})
    _create_sessions(pipeline, cell, new_sessions, session_ids, days, seq)
    changed_traces = session_assignment.store_traces(pipeline, cell, assignments, seq)
    for key, trace in changed_traces:
        deltas.setdefault(key, SessionDelta()).extend(trace.started_us, trace.ended_us)
    _add_labels(pipeline, cell, [(key, trace.metadata) for key, trace in changed_traces])
    result.stored = sum(map(len, changed_spans.values()))
    result.sessions = deltas.keys() | moved_keys
    _update_usage(pipeline, cell, deltas)
    result.seq = await _update_sessions(pipeline, cell, deltas, last_seqs, seq + result.stored, sessions.without_model)
    if moved_keys:
        result.seq = await rebuild_aggregates(pipeline, cell, moved_keys, days)
    return result


async def _move_spans(pipeline: Pipeline, cell: int, moves: Sequence[Move], days: Days) -> None:
    """Move the stored spans of traces to another session. Each gets a new number."""
    if not moves:
        return
    old_keys = [(cell, move.old_key, days[move.old_key], move.trace_id) for move in moves]
    counts = [count for ((count,),) in await pipeline.fetch(*((_COUNT_SPANS, key) for key in old_keys))]
    (((seq, _),),) = await pipeline.fetch(sequence.take(cell, sum(counts)))
    for move, old_key, count in zip(moves, old_keys, counts, strict=True):
        pipeline.queue(_MOVE_SPANS, (*old_key, move.new_key, days[move.new_key], seq - 1))
        seq += count


def _message_texts(records: Sequence[Record]) -> dict[bytes, bytes]:
    texts: dict[bytes, bytes] = {}
    for record in records:
        if type(record) is Span and record.messages:
            texts |= record.messages
    return texts


def _store_messages(pipeline: Pipeline, result: Committed, texts: dict[bytes, bytes], stored: set[bytes]) -> None:
    """Insert the messages that are not stored yet, and give the others today's date."""
    cell, today = result.cell, result.day
    if stored:
        pipeline.queue(messages.SET_DAY, (today, cell, list(stored), today))
    new = {digest: text for digest, text in texts.items() if digest not in stored}
    if new:
        pipeline.queue(messages.INSERT, messages.insert_parameters(cell, today, new))


def _group_records(records: Sequence[Record]) -> tuple[SpanGroups, dict[CleanText, Trace]]:
    """Merge records of the same span or trace. Return spans by trace and named session, and traces by id."""
    spans: dict[SpanKey, Span] = {}
    traces: dict[CleanText, Trace] = {}
    for record in records:
        if type(record) is Span:
            key = (record.trace_id, record.span_id)
            known_span = spans.setdefault(key, record)
            if known_span is not record:
                spans[key] = merge(known_span, record)
        elif type(record) is Trace:
            known_trace = traces.get(record.trace_id)
            traces[record.trace_id] = merge_traces(known_trace, record) if known_trace else record
    groups: SpanGroups = {}
    trace_id = session_id = None
    group: list[Span] = []
    for span in spans.values():
        # Spans of one trace usually follow each other.
        if span.trace_id != trace_id or span.session_id != session_id:
            trace_id, session_id = span.trace_id, span.session_id
            group = groups.setdefault((trace_id, session_id), [])
        group.append(span)
    return groups, traces


def _find_sessions(cell: int, keys: Iterable[uuid.UUID]) -> Query:
    return _FIND_SESSIONS, (cell, encode_array(keys))


async def _find_new_sessions(
    pipeline: Pipeline,
    cell: int,
    keys: set[uuid.UUID],
    session_ids: dict[uuid.UUID, CleanText],
    sessions: KnownSessions,
) -> list[uuid.UUID]:
    """Return the sessions to create, and add all `keys` to the known sessions. New ones get today's date."""
    # Sessions of spans that are not in the session of their trace.
    if other_keys := keys - sessions.days.keys() - session_ids.keys():
        sessions.add(*await pipeline.fetch(_find_sessions(cell, other_keys)))
    missing_keys = keys - sessions.days.keys()
    today = datetime.now(UTC).date()
    sessions.days.update(dict.fromkeys(missing_keys, today))
    return [key for key in missing_keys if key in session_ids]


def _create_sessions(
    pipeline: Pipeline, cell: int, keys: list[uuid.UUID], session_ids: dict[uuid.UUID, CleanText], days: Days, seq: int
) -> None:
    if keys:
        ids = encode_array(session_ids[key] for key in keys)
        pipeline.queue(INSERT_SESSIONS, (cell, encode_array(keys), ids, days[keys[0]], seq))


async def _merge_stored_spans(
    pipeline: Pipeline,
    cell: int,
    session_spans: SessionSpans,
    days: Days,
    deltas: Deltas,
    maybe_stored: Container[SpanKey] | None,
    result: Committed,
) -> SessionSpans:
    """Merge spans with their stored versions, which are deleted. Return the spans to insert."""
    stored = await _find_stored_spans(pipeline, cell, session_spans, days, maybe_stored, result.created)
    to_insert: SessionSpans = {}
    replaced: SessionSpans = {}
    for key, spans in session_spans.items():
        delta = SessionDelta()
        changed, old = spans, list[Span]()
        if stored:
            changed, old = _merge_with_stored(spans, stored)
            delta.subtract(old)
            if old:
                replaced[key] = old
        delta.add(changed)
        if changed:
            to_insert[key], deltas[key] = changed, delta
            _note_changes(result, key, delta, old, changed, has_replaced=bool(replaced))
    if replaced:
        result.closed = [(span.trace_id, span.span_id) for spans in replaced.values() for span in spans]
        pipeline.queue(_DELETE_SPANS, (*_key_arrays(replaced, days), cell))
    return to_insert


def _note_changes(
    result: Committed,
    key: uuid.UUID,
    delta: SessionDelta,
    old: list[Span],
    changed: list[Span],
    *,
    has_replaced: bool,
) -> None:
    """Note the reports and the open spans of a session, for the steps that follow."""
    # A session without hourly figures has no reports of compactions.
    if delta.trend is not None and (reports := shared_reports([*old, *changed])):
        result.shared_reports[key] = SharedReports({span.trace_id for span in reports}, old, changed)
    if has_replaced or delta.running_count:
        result.opened += [(span.trace_id, span.span_id) for span in changed if span.is_running]


def _merge_with_stored(spans: list[Span], stored: dict[SpanKey, Span]) -> tuple[list[Span], list[Span]]:
    """Return the spans that are new or changed, and the stored versions they replace."""
    changed, replaced = [], []
    for span in spans:
        old = stored.get((span.trace_id, span.span_id))
        new = span if old is None else merge(old, span)
        if new is old:
            continue
        changed.append(new)
        if old is not None:
            replaced.append(old)
    return changed, replaced


async def _find_stored_spans(
    pipeline: Pipeline,
    cell: int,
    session_spans: SessionSpans,
    days: Days,
    maybe_stored: Container[SpanKey] | None,
    created: Container[uuid.UUID],
) -> dict[SpanKey, Span]:
    """Return the stored versions of spans that may already be in the table."""
    candidates, probes = session_spans, set[SpanKey]()
    if maybe_stored is not None:
        candidates, probes = _candidates(session_spans, maybe_stored, created)
    if not candidates:
        return {}
    (rows,) = await pipeline.fetch((_FIND_SPANS, (*_key_arrays(candidates, days), cell)))
    stored = {(span.trace_id, span.span_id): span for span in map(read_span, rows)}
    if probes & stored.keys():
        return await _find_stored_spans(pipeline, cell, session_spans, days, None, created)
    return stored


def _candidates(
    session_spans: SessionSpans, maybe_stored: Container[SpanKey], created: Container[uuid.UUID]
) -> tuple[SessionSpans, set[SpanKey]]:
    """Return the spans to look up, and the keys of those that only tell if a batch was sent again."""
    candidates: SessionSpans = {}
    probes: set[SpanKey] = set()
    for key, spans in session_spans.items():
        # A sender that got no answer sends a batch again. Then its ends are stored, and probably all of it.
        ends = [] if key in created else [spans[0], spans[-1]]
        probes |= {name for span in ends if (name := (span.trace_id, span.span_id)) not in maybe_stored}
        names = {(span.trace_id, span.span_id): span for span in spans}
        if matches := [span for name, span in names.items() if name in probes or name in maybe_stored]:
            candidates[key] = matches
    return candidates, probes


def _key_arrays(session_spans: SessionSpans, days: Days) -> tuple[list[uuid.UUID], list[date], list[str], list[str]]:
    """Return the primary keys of spans as one array for each column."""
    rows = [(key, days[key], span.trace_id, span.span_id) for key, spans in session_spans.items() for span in spans]
    session_keys, session_days, trace_ids, span_ids = map(list, zip(*rows, strict=True))
    return session_keys, session_days, trace_ids, span_ids


async def _copy_spans(
    pipeline: Pipeline, cell: int, session_spans: SessionSpans, days: Days, seq: int
) -> dict[uuid.UUID, int]:
    """Insert spans, numbered from `seq` on. Return the last number of each session."""
    last_seqs: dict[uuid.UUID, int] = {}

    def pack() -> Iterator[bytes]:
        number = seq
        pieces = [copy_rows.HEADER]
        for key, spans in session_spans.items():
            pieces += copy_rows.pack_rows(spans, cell=cell, session_key=key, day=days[key], seq=number)
            number += len(spans)
            last_seqs[key] = number - 1
            # Send rows in chunks, so that Postgres inserts while the next ones are packed.
            if len(pieces) > _COPY_CHUNK_PIECES:
                yield b"".join(pieces)
                pieces.clear()
        yield b"".join((*pieces, copy_rows.TRAILER))

    await pipeline.copy(_COPY_SPANS, pack())
    return last_seqs


async def _correct_compactions(
    pipeline: Pipeline, cell: int, sessions: dict[uuid.UUID, SharedReports], days: Days, deltas: Deltas
) -> None:
    """Count each compaction once that older clients report in several events."""
    for key, reports in sessions.items():
        values = (cell, key, days[key], list(reports.trace_ids), list(REPORTING_KINDS))
        (rows,) = await pipeline.fetch((_REPORTS, values))
        correct(deltas[key], map(read_span, rows), reports.replaced, reports.changed)


async def _update_sessions(
    pipeline: Pipeline,
    cell: int,
    deltas: Deltas,
    last_seqs: dict[uuid.UUID, int],
    next_seq: int,
    without_model: set[uuid.UUID],
) -> int:
    """Update the aggregates of sessions and return the last sequence number used.

    Each session gets its own number, which makes keyset pagination possible. `without_model` has the sessions whose
    hourly figures move as soon as they have a model.
    """
    rows = []
    for key, delta in deltas.items():
        if (seq := last_seqs.get(key)) is None:
            seq, next_seq = next_seq, next_seq + 1
        rows.append(delta.row(key, seq))
    if rows:
        query = (UPDATE_SESSIONS, update_parameters(cell, rows))
        if any(delta.trend is not None or key in without_model for key, delta in deltas.items()):
            (updated,) = await pipeline.fetch(query)
            await update_trends(pipeline, cell, deltas, updated)
        else:
            pipeline.queue(*query)
    return next_seq - 1


def _add_labels(pipeline: Pipeline, cell: int, metadata: Iterable[tuple[uuid.UUID, bytes | str]]) -> None:
    """Store the labels of sessions, given the metadata of their traces."""
    session_labels: dict[uuid.UUID, list[Label]] = {}
    for key, encoded in metadata:
        session_labels.setdefault(key, []).extend(labels.read_labels(encoded))
    if parameters := labels.insert_parameters(cell, session_labels):
        pipeline.queue(labels.INSERT, parameters)


def _update_usage(pipeline: Pipeline, cell: int, deltas: Deltas) -> None:
    rows = [row for key, delta in deltas.items() if delta.usage is not None for row in delta.usage.rows(key)]
    if rows:
        pipeline.queue(usage.ADD, usage.add_parameters(cell, rows))
        pipeline.queue(usage.ADD_HOURLY, usage.hourly_parameters(cell, rows))


async def rebuild_aggregates(pipeline: Pipeline, cell: int, keys: set[uuid.UUID], days: Days) -> int:
    """Aggregate sessions again from their spans and traces. Return a number higher than all of theirs."""
    (((first_seq, _),),) = await pipeline.fetch(sequence.take(cell, len(keys) + 1))
    for position, key in enumerate(sorted(keys)):
        steps = rebuild_session(pipeline.queue, cell, key, days[key], first_seq + position)
        await run_in_pipeline(pipeline, steps)
    pipeline.queue(labels.DELETE, (cell, list(keys)))
    (metadata,) = await pipeline.fetch((labels.READ_METADATA, (cell, list(keys))))
    _add_labels(pipeline, cell, metadata)
    pipeline.queue(_DELETE_EMPTY_SESSIONS, {"cell": cell, "keys": sorted(keys)})
    return int(first_seq) + len(keys)
