"""One transaction: records of one project become traces, sessions, spans and sums.

Everything of a project is written under that project's advisory lock, so sequence numbers rise in the order of commits
and nothing read here can change before it is written. Spans go in by one COPY; stored ones that a record completes are
read, merged, and put in again.
"""

from __future__ import annotations

import uuid
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import msgspec
import psycopg

from ingest.decoding.records import Span, Trace, microseconds
from ingest.decoding.span_facts import facts_of
from ingest.storage import copy_rows, messages, session_assignment
from ingest.storage.aggregates import ADD, CLEAR, Totals, added
from ingest.storage.merge import merge, merge_traces
from ingest.storage.messages import Stored

Cursor = psycopg.AsyncCursor[Any]
SpanKey = tuple[str, str]
# The spans of each session.
Placed = dict[uuid.UUID, list[Span]]
# The first half of the advisory lock's name; the second is the project.
LOCK_SPACE = 0x41524941

# First the lock, then the numbers: whoever commits later has the higher ones.
_LOCKED_BLOCK = "SELECT nextval('ingest_seq') FROM (SELECT pg_advisory_xact_lock(%s, %s)) AS locked"
_BLOCK = "SELECT nextval('ingest_seq')"
_DAYS = "SELECT session_key, day FROM ingest_session WHERE session_key = ANY(%s)"
_PUT_SESSIONS = """
INSERT INTO ingest_session (session_key, project_id, session_id, day, created_at, last_seq, span_count, running_count,
  error_count, turn_count, turn_span_count, check_count, compaction_count, fallback_count, model, peak_tokens,
  window_tokens, trigger_tokens, last_tokens)
SELECT k, %s, id, %s, now(), %s, 0, 0, 0, 0, 0, 0, 0, 0, '', 0, 0, 0, 0 FROM unnest(%s::uuid[], %s::text[]) t (k, id)
"""
_STORED = """
SELECT s.trace_id, s.span_id, s.parent_id, s.kind, s.name, s.status, s.started_at, s.ended_at, s.data::text,
  s.payload::text
FROM unnest(%s::uuid[], %s::date[], %s::text[], %s::text[]) k (a, b, c, d)
JOIN ingest_span s ON (s.session_key, s.session_day, s.trace_id, s.span_id) = (k.a, k.b, k.c, k.d)
"""
_DELETE = """
DELETE FROM ingest_span s USING unnest(%s::uuid[], %s::date[], %s::text[], %s::text[]) k (a, b, c, d)
WHERE (s.session_key, s.session_day, s.trace_id, s.span_id) = (k.a, k.b, k.c, k.d)
"""
# The key that distributes a row cannot be updated (Citus), so a move is a delete and an insert.
_MOVE = """
WITH gone AS (DELETE FROM ingest_span WHERE session_key = %s AND session_day = %s AND trace_id = %s RETURNING *)
INSERT INTO ingest_span (session_key, session_day, seq, project_id, trace_id, span_id, parent_id, kind, name, status,
  started_at, ended_at, tokens, data, payload)
SELECT %s, %s, nextval('ingest_seq'), project_id, trace_id, span_id, parent_id, kind, name, status, started_at,
  ended_at, tokens, data, payload FROM gone ON CONFLICT DO NOTHING
"""
# What sums are made of; payloads stay where they are.
_OF_SESSION = """
SELECT trace_id, span_id, parent_id, kind, name, status, started_at, ended_at, data::text, NULL
FROM ingest_span WHERE session_key = %s AND session_day = %s
"""
_DROP_EMPTY = """
DELETE FROM ingest_session WHERE session_key = ANY(%(keys)s) AND span_count = 0
  AND session_key NOT IN (SELECT session_key FROM ingest_trace WHERE session_key = ANY(%(keys)s))
  AND session_key NOT IN (SELECT session_key FROM ingest_transcript WHERE session_key = ANY(%(keys)s))
"""
# About a hundred rows.
_COPY_PIECES = 700
_COPY = f"COPY ingest_span ({copy_rows.COLUMNS}) FROM STDIN (FORMAT BINARY)"


@dataclass(slots=True)
class Committed:
    """What one project's part of a commit changed."""

    project_id: int
    seq: int = 0
    stored: int = 0
    sessions: set[uuid.UUID] = field(default_factory=set)
    opened: list[SpanKey] = field(default_factory=list)
    closed: list[SpanKey] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)
    day: date = field(default_factory=lambda: datetime.now(UTC).date())


async def write(
    cursor: Cursor,
    project_id: int,
    records: Sequence[Span | Trace],
    *,
    maybe_stored: Container[SpanKey] | None,
    known_messages: Stored,
) -> Committed:
    """Write `records` in the caller's transaction.

    `maybe_stored` names the spans that may be in the table already; None means any may. A span that is there and is
    not named ends the transaction with UniqueViolation.
    """
    seq = await _block(cursor, _LOCKED_BLOCK, LOCK_SPACE, project_id)
    done = Committed(project_id, seq)
    done.messages = await _put_messages(cursor, project_id, records, known_messages)
    told, traces = _gathered(records)
    found, moves, days = await session_assignment.find(cursor, project_id, told, traces)
    placed = await session_assignment.place(cursor, project_id, told, found, days)
    moved = {key for move in moves for key in (move.old, move.new)}
    keys = {*placed, *(home.session_key for home in found.values()), *moved}
    if unknown := keys - days.keys():
        days |= await _days(cursor, project_id, unknown, session_assignment.names(project_id, told, found), seq)
    for move in moves:
        await cursor.execute(_MOVE, (move.old, days[move.old], move.trace_id, move.new, days[move.new]))
    totals: dict[uuid.UUID, Totals] = {}
    to_copy = await _merged(cursor, placed, days, totals, maybe_stored, done)
    last_seqs = await _copy(cursor, project_id, to_copy, days, seq) if to_copy else {}
    for key, trace in await session_assignment.put(cursor, project_id, found, seq):
        totals.setdefault(key, Totals()).stretch(trace.started_us, trace.ended_us)
    done.stored = sum(map(len, to_copy.values()))
    done.sessions = totals.keys() | moved
    done.seq = await _add(cursor, totals, last_seqs, seq + done.stored)
    if moved:
        done.seq = await _count_again(cursor, moved, days)
    return done


async def _put_messages(
    cursor: Cursor, project_id: int, records: Sequence[Span | Trace], stored: Stored
) -> list[bytes]:
    """Store the texts that are not there yet; the names of those that are now."""
    texts: dict[bytes, bytes] = {}
    for record in records:
        if isinstance(record, Span) and record.texts:
            texts |= record.texts
    today = datetime.now(UTC).date()
    missing = stored.missing(project_id, texts, today) if texts else []
    if not missing:
        return []
    await cursor.execute(messages.KNOWN, (project_id, missing))
    known = {bytes(row[0]) for row in await cursor.fetchall()}
    if known:
        await cursor.execute(messages.USED, (today, project_id, list(known), today))
    new = {digest: texts[digest] for digest in missing if digest not in known}
    if new:
        await cursor.execute(messages.PUT, messages.put_arguments(project_id, today, new))
    return missing


async def _block(cursor: Cursor, statement: str = _BLOCK, *arguments: int) -> int:
    await cursor.execute(statement, arguments)
    (value,) = await cursor.fetchone() or (0,)
    return int(value)


def _gathered(records: Sequence[Span | Trace]) -> tuple[session_assignment.Told, dict[str, Trace]]:
    """Each span and each trace once, in the order of their first telling; spans by their trace and session."""
    spans: dict[SpanKey, Span] = {}
    traces: dict[str, Trace] = {}
    for record in records:
        if type(record) is Span:
            key = (record.trace_id, record.span_id)
            known_span = spans.setdefault(key, record)
            if known_span is not record:
                spans[key] = merge(known_span, record)
        elif type(record) is Trace:
            known = traces.get(record.trace_id)
            traces[record.trace_id] = merge_traces(known, record) if known else record
    told: session_assignment.Told = {}
    trace_id = session_id = None
    together: list[Span] = []
    for span in spans.values():
        # Spans of one trace nearly always come one after the other.
        if span.trace_id != trace_id or span.session_id != session_id:
            trace_id, session_id = span.trace_id, span.session_id
            together = told.setdefault((trace_id, session_id), [])
        together.append(span)
    return told, traces


async def _days(
    cursor: Cursor, project_id: int, keys: set[uuid.UUID], named: dict[uuid.UUID, str], seq: int
) -> dict[uuid.UUID, date]:
    """The day of each session; one that is new was first seen today."""
    await cursor.execute(_DAYS, (list(keys),))
    days = dict(await cursor.fetchall())
    today = datetime.now(UTC).date()
    new = [key for key in keys if key not in days and key in named]
    if new:
        await cursor.execute(_PUT_SESSIONS, (project_id, today, seq, new, [named[key] for key in new]))
    return days | {key: today for key in keys if key not in days}


async def _merged(
    cursor: Cursor,
    placed: Placed,
    days: dict[uuid.UUID, date],
    totals: dict[uuid.UUID, Totals],
    maybe_stored: Container[SpanKey] | None,
    done: Committed,
) -> Placed:
    """The spans to put in, completed by what is stored of them, which is taken out."""
    stored = await _stored(cursor, placed, days, maybe_stored)
    to_copy: Placed = {}
    replaced: Placed = {}
    for key, spans in placed.items():
        total = Totals()
        changed = spans
        if stored:
            changed, old = _completed(spans, stored)
            total.take_off(old)
            if old:
                replaced[key] = old
        total.add(changed)
        if changed:
            to_copy[key], totals[key] = changed, total
            if replaced or total.running:
                done.opened += [(span.trace_id, span.span_id) for span in changed if span.is_running]
    if replaced:
        done.closed = [(span.trace_id, span.span_id) for spans in replaced.values() for span in spans]
        await cursor.execute(_DELETE, _key_arrays(replaced, days))
    return to_copy


def _completed(spans: list[Span], stored: dict[SpanKey, Span]) -> tuple[list[Span], list[Span]]:
    """Those that add something to what is stored of them, completed by it; and what they replace."""
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


async def _stored(
    cursor: Cursor, placed: Placed, days: dict[uuid.UUID, date], maybe_stored: Container[SpanKey] | None
) -> dict[SpanKey, Span]:
    """What the table holds of spans that may be in it."""
    asked = placed
    if maybe_stored is not None:
        asked = {}
        for key, spans in placed.items() if maybe_stored else ():
            if found := [span for span in spans if (span.trace_id, span.span_id) in maybe_stored]:
                asked[key] = found
    if not asked:
        return {}
    await cursor.execute(_STORED, _key_arrays(asked, days))
    return {(span.trace_id, span.span_id): span for span in map(_from_row, await cursor.fetchall())}


def _key_arrays(
    placed: Placed, days: dict[uuid.UUID, date]
) -> tuple[list[uuid.UUID], list[date], list[str], list[str]]:
    found = [(key, days[key], span.trace_id, span.span_id) for key, spans in placed.items() for span in spans]
    keys, of_days, trace_ids, span_ids = map(list, zip(*found, strict=True))
    return keys, of_days, trace_ids, span_ids


def _from_row(row: tuple[Any, ...]) -> Span:
    trace_id, span_id, parent_id, kind, name, status, started_at, ended_at, data, payload = row
    encoded = data.encode()
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        kind=kind,
        name=name,
        status=status,
        started_us=None if started_at is None else microseconds(started_at),
        ended_us=None if ended_at is None else microseconds(ended_at),
        data=encoded,
        payload=None if payload is None else payload.encode(),
        session_id=None,
        facts=facts_of(kind, msgspec.json.decode(encoded)),
    )


async def _copy(
    cursor: Cursor, project_id: int, placed: Placed, days: dict[uuid.UUID, date], seq: int
) -> dict[uuid.UUID, int]:
    """Put the spans in, numbered from `seq` on; the last number of each session."""
    packed = [copy_rows.HEADER]
    last_seqs: dict[uuid.UUID, int] = {}
    async with cursor.copy(_COPY) as copy:
        for key, spans in placed.items():
            packed += copy_rows.pack(spans, session_key=key, day=days[key], project_id=project_id, seq=seq)
            seq += len(spans)
            last_seqs[key] = seq - 1
            # Postgres works on these while the next are packed.
            if len(packed) > _COPY_PIECES:
                await copy.write(b"".join(packed))
                packed.clear()
        await copy.write(b"".join((*packed, copy_rows.TRAILER)))
    return last_seqs


async def _add(cursor: Cursor, totals: dict[uuid.UUID, Totals], last_seqs: dict[uuid.UUID, int], next_seq: int) -> int:
    """Add the sums to their sessions; no two get the same number, so that a list can be read in pages."""
    changed = []
    for key, total in totals.items():
        if (seq := last_seqs.get(key)) is None:
            seq, next_seq = next_seq, next_seq + 1
        changed.append(total.row(key, seq))
    if changed:
        await cursor.execute(ADD, added(changed))
    return next_seq - 1


async def _count_again(cursor: Cursor, keys: set[uuid.UUID], days: dict[uuid.UUID, date]) -> int:
    """Sum sessions up from their spans and traces; returns a sequence number later than all of theirs."""
    first_seq = await _block(cursor)
    for position, key in enumerate(sorted(keys)):
        total = Totals()
        await cursor.execute(_OF_SESSION, (key, days[key]))
        total.add(map(_from_row, await cursor.fetchall()))
        await cursor.execute("SELECT started_at, ended_at FROM ingest_trace WHERE session_key = %s", (key,))
        for times in await cursor.fetchall():
            total.stretch(*(None if at is None else microseconds(at) for at in times))
        await cursor.execute(CLEAR, (key,))
        await cursor.execute(ADD, added([total.row(key, first_seq + position)]))
    await cursor.execute(_DROP_EMPTY, {"keys": sorted(keys)})
    return first_seq + len(keys)
