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

from ingest import messages, rows
from ingest.events import Span, Trace, microseconds, moment
from ingest.facts import facts_of
from ingest.merge import merge, merge_traces
from ingest.messages import Stored
from ingest.models import Trace as TraceRow
from ingest.models import session_key, trace_key
from ingest.totals import ADD, CLEAR, Totals

Cursor = psycopg.AsyncCursor[Any]
# The first half of the advisory lock's name; the second is the project.
LOCK_SPACE = 0x41524941

_LOCK = "SELECT pg_advisory_xact_lock(%s, %s)"
_BLOCK = "SELECT nextval('ingest_seq')"
# Traces and sessions are distributed by different keys (Citus), so the traces are looked up first, then their sessions.
_TRACES = """
WITH t AS MATERIALIZED (SELECT * FROM ingest_trace WHERE trace_key = ANY(%s))
SELECT t.trace_key, t.session_key, t.source, t.is_mixed, t.name, t.started_at, t.ended_at, t.metadata::text
FROM t JOIN ingest_session s ON s.session_key = t.session_key
"""
_PUT_TRACE = """
INSERT INTO ingest_trace (trace_key, project_id, trace_id, session_key, source, is_mixed, seq, name, started_at,
  ended_at, metadata)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s::jsonb)
ON CONFLICT (trace_key) DO UPDATE SET session_key = EXCLUDED.session_key, source = EXCLUDED.source,
  is_mixed = EXCLUDED.is_mixed, seq = EXCLUDED.seq, name = EXCLUDED.name, started_at = EXCLUDED.started_at,
  ended_at = EXCLUDED.ended_at, metadata = EXCLUDED.metadata
"""
_DAYS = "SELECT session_key, day FROM ingest_session WHERE session_key = ANY(%s)"
_PUT_SESSION = """
INSERT INTO ingest_session (session_key, project_id, session_id, day, created_at, last_seq, span_count, running_count,
  error_count, turn_count, turn_span_count, check_count, compaction_count, fallback_count, model, peak_tokens,
  window_tokens, trigger_tokens, last_tokens)
VALUES (%s, %s, %s, %s, now(), %s, 0, 0, 0, 0, 0, 0, 0, 0, '', 0, 0, 0, 0)
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
WITH gone AS (DELETE FROM ingest_span WHERE session_key = %s AND session_day = %s AND trace_id = ANY(%s) RETURNING *)
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
_COPY = f"COPY ingest_span ({rows.COLUMNS}) FROM STDIN (FORMAT BINARY)"


@dataclass(slots=True)
class Committed:
    """What one project's part of a commit changed."""

    project_id: int
    seq: int = 0
    stored: int = 0
    sessions: set[uuid.UUID] = field(default_factory=set)
    opened: list[tuple[str, str]] = field(default_factory=list)
    closed: list[tuple[str, str]] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)
    day: date = field(default_factory=lambda: datetime.now(UTC).date())


@dataclass(slots=True)
class _Home:
    """Where a trace's spans live, and how well that is known."""

    key: uuid.UUID
    session_key: uuid.UUID
    session_id: str | None
    source: int
    is_mixed: bool = False
    told: Trace | None = None
    is_changed: bool = True


async def write(
    cursor: Cursor,
    project_id: int,
    records: Sequence[Span | Trace],
    *,
    maybe_stored: Container[tuple[str, str]] | None,
    known_messages: Stored,
) -> Committed:
    """Write `records` in the caller's transaction.

    `maybe_stored` names the spans that may be in the table already; None means any may. A span that is there and is
    not named ends the transaction with UniqueViolation.
    """
    await cursor.execute(_LOCK, (LOCK_SPACE, project_id))
    seq = await _block(cursor)
    done = Committed(project_id, seq)
    done.messages = await _put_messages(cursor, project_id, records, known_messages)
    spans, traces = _gathered(records)
    homes, moves = await _homes(cursor, project_id, spans, traces)
    placed = _placed(project_id, spans, homes)
    named = {home.session_key: home.session_id for home in homes.values() if home.session_id is not None}
    for session_id in {span.session_id for span in spans if span.session_id}:
        named[session_key(project_id, session_id)] = session_id
    days = await _days(cursor, project_id, {*placed.values(), *_keys_of(homes, moves)}, named, seq)
    for trace_ids, old, new in moves:
        await _move(cursor, trace_ids, old, new, days)
    totals: dict[uuid.UUID, Totals] = {}
    to_copy = await _merged(cursor, spans, placed, days, totals, maybe_stored)
    if to_copy:
        await _copy(cursor, project_id, to_copy, placed, days, seq)
    await _put_traces(cursor, project_id, homes, totals, seq)
    done.stored = len(to_copy)
    done.sessions = set(totals)
    last: dict[uuid.UUID, int] = {}
    for position, span in enumerate(to_copy):
        key = (span.trace_id, span.span_id)
        (done.opened if span.is_running else done.closed).append(key)
        last[placed[key]] = seq + position
    # Lists are paged by it, so no two sessions have the same: the last of a session's spans, or one of its own.
    for place, touched in enumerate(sorted(set(totals) - set(last))):
        last[touched] = seq + len(to_copy) + place
    await _add(cursor, totals, last)
    done.seq = max(last.values(), default=seq)
    if moves:
        done.seq = await _count_again(cursor, {key for _, old, new in moves for key in (old, new)}, days)
        done.sessions |= {key for _, old, new in moves for key in (old, new)}
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


async def _block(cursor: Cursor) -> int:
    await cursor.execute(_BLOCK)
    (value,) = await cursor.fetchone() or (0,)
    return int(value)


def _gathered(records: Sequence[Span | Trace]) -> tuple[list[Span], dict[str, Trace]]:
    """Each span and each trace once, in the order of their first telling."""
    spans: dict[tuple[str, str], Span] = {}
    traces: dict[str, Trace] = {}
    for record in records:
        if isinstance(record, Span):
            key = (record.trace_id, record.span_id)
            spans[key] = merge(spans[key], record) if key in spans else record
        else:
            known = traces.get(record.trace_id)
            traces[record.trace_id] = merge_traces(known, record) if known else record
    return list(spans.values()), traces


async def _homes(
    cursor: Cursor, project_id: int, spans: list[Span], traces: dict[str, Trace]
) -> tuple[dict[str, _Home], list[tuple[list[str], uuid.UUID, uuid.UUID]]]:
    """Where each trace lives now, and which traces have to move there."""
    named: dict[str, str] = {}
    is_mixed: set[str] = set()
    for span in spans:
        if span.session_id and named.setdefault(span.trace_id, span.session_id) != span.session_id:
            is_mixed.add(span.trace_id)
    keys = {trace_id: trace_key(project_id, trace_id) for trace_id in {*traces, *(span.trace_id for span in spans)}}
    await cursor.execute(_TRACES, (list(keys.values()),))
    known = {row[0]: row for row in await cursor.fetchall()}
    homes: dict[str, _Home] = {}
    moves: list[tuple[list[str], uuid.UUID, uuid.UUID]] = []
    for trace_id, key in keys.items():
        told = traces.get(trace_id)
        new = _told_home(project_id, trace_id, key, told, named.get(trace_id))
        new.is_mixed = trace_id in is_mixed
        if (row := known.get(key)) is None:
            homes[trace_id] = new
            continue
        homes[trace_id] = home = _settled(row, new, told, trace_id)
        if home.session_key != row[1]:
            moves.append(([trace_id], row[1], home.session_key))
    return homes, moves


def _told_home(project_id: int, trace_id: str, key: uuid.UUID, told: Trace | None, named: str | None) -> _Home:
    source = TraceRow.Source
    if told is not None and told.group_id:
        session_id, how = told.group_id, source.GROUP
    elif told is not None and told.session_id:
        session_id, how = told.session_id, source.SPAN
    elif named:
        session_id, how = named, source.SPAN
    else:
        session_id, how = trace_id, source.TRACE_ID
    return _Home(key, session_key(project_id, session_id), session_id, int(how), told=told)


def _settled(row: tuple[Any, ...], new: _Home, told: Trace | None, trace_id: str) -> _Home:
    _, old_key, old_source, old_mixed, name, started_at, ended_at, metadata = row
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
        return _Home(new.key, new.session_key, new.session_id, new.source, new.is_mixed or old_mixed, merged)
    differs = new.source == old_source == TraceRow.Source.SPAN and new.session_key != old_key
    mixed = old_mixed or new.is_mixed or differs
    return _Home(
        new.key, old_key, None, old_source, mixed, merged, is_changed=merged is not stored or mixed != old_mixed
    )


def _placed(project_id: int, spans: list[Span], homes: dict[str, _Home]) -> dict[tuple[str, str], uuid.UUID]:
    """The session of each span: its trace's group, else the one it names, else its trace's."""
    keys: dict[str, uuid.UUID] = {}
    placed: dict[tuple[str, str], uuid.UUID] = {}
    for span in spans:
        home = homes[span.trace_id]
        where = home.session_key
        if home.source != TraceRow.Source.GROUP and span.session_id:
            where = keys.get(span.session_id) or keys.setdefault(
                span.session_id, session_key(project_id, span.session_id)
            )
        placed[span.trace_id, span.span_id] = where
    return placed


def _keys_of(homes: dict[str, _Home], moves: list[tuple[list[str], uuid.UUID, uuid.UUID]]) -> set[uuid.UUID]:
    return {home.session_key for home in homes.values()} | {old for _, old, _ in moves}


async def _days(
    cursor: Cursor, project_id: int, keys: set[uuid.UUID], named: dict[uuid.UUID, str], seq: int
) -> dict[uuid.UUID, date]:
    """The day of each session; one that is new was first seen today."""
    await cursor.execute(_DAYS, (list(keys),))
    days = dict(await cursor.fetchall())
    today = datetime.now(UTC).date()
    new = [key for key in keys if key not in days and key in named]
    if new:
        await cursor.executemany(_PUT_SESSION, [(key, project_id, named[key], today, seq) for key in new])
    return days | {key: today for key in keys if key not in days}


async def _merged(
    cursor: Cursor,
    spans: list[Span],
    placed: dict[tuple[str, str], uuid.UUID],
    days: dict[uuid.UUID, date],
    totals: dict[uuid.UUID, Totals],
    maybe_stored: Container[tuple[str, str]] | None,
) -> list[Span]:
    """The spans to put in, completed by what is stored of them, which is taken out."""
    asked = set(placed) if maybe_stored is None else {key for key in placed if key in maybe_stored}
    stored: dict[tuple[str, str], Span] = {}
    if asked:
        order = list(asked)
        await cursor.execute(_STORED, _key_arrays(order, placed, days))
        stored = {(span.trace_id, span.span_id): span for span in map(_from_row, await cursor.fetchall())}
    to_copy: list[Span] = []
    replaced: list[tuple[str, str]] = []
    for span in spans:
        key = (span.trace_id, span.span_id)
        old = stored.get(key)
        new = span if old is None else merge(old, span)
        if new is old:
            continue
        total = totals.setdefault(placed[key], Totals())
        if old is not None:
            total.take_off(old)
            replaced.append(key)
        total.add(new)
        to_copy.append(new)
    if replaced:
        await cursor.execute(_DELETE, _key_arrays(replaced, placed, days))
    return to_copy


def _key_arrays(
    keys: list[tuple[str, str]], placed: dict[tuple[str, str], uuid.UUID], days: dict[uuid.UUID, date]
) -> tuple[list[uuid.UUID], list[date], list[str], list[str]]:
    sessions = [placed[key] for key in keys]
    return sessions, [days[key] for key in sessions], [key[0] for key in keys], [key[1] for key in keys]


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
    cursor: Cursor,
    project_id: int,
    spans: list[Span],
    placed: dict[tuple[str, str], uuid.UUID],
    days: dict[uuid.UUID, date],
    seq: int,
) -> None:
    places = {key: rows.place(key, day, project_id) for key, day in days.items()}
    pack = rows.row
    packed = [
        pack(span, places[placed[span.trace_id, span.span_id]], seq + position) for position, span in enumerate(spans)
    ]
    async with cursor.copy(_COPY) as copy:
        await copy.write(b"".join((rows.HEADER, *packed, rows.TRAILER)))


async def _put_traces(
    cursor: Cursor, project_id: int, homes: dict[str, _Home], totals: dict[uuid.UUID, Totals], seq: int
) -> None:
    changed = []
    for trace_id, home in homes.items():
        if not home.is_changed:
            continue
        told = home.told or Trace(trace_id, "", None, None, None, None, b"{}")
        totals.setdefault(home.session_key, Totals()).stretch(told.started_us, told.ended_us)
        changed.append(
            (
                home.key,
                project_id,
                trace_id,
                home.session_key,
                home.source,
                home.is_mixed,
                seq,
                told.name,
                moment(told.started_us),
                moment(told.ended_us),
                told.metadata.decode(),
            )
        )
    if changed:
        await cursor.executemany(_PUT_TRACE, changed)


async def _add(cursor: Cursor, totals: dict[uuid.UUID, Totals], last: dict[uuid.UUID, int]) -> None:
    # In one order everywhere, so that two writers cannot wait for each other.
    ordered = sorted(totals.items())
    if ordered:
        await cursor.executemany(
            ADD, [{**total.parameters(), "session_key": key, "seq": last[key]} for key, total in ordered]
        )


async def _move(
    cursor: Cursor, trace_ids: list[str], old: uuid.UUID, new: uuid.UUID, days: dict[uuid.UUID, date]
) -> None:
    await cursor.execute(_MOVE, (old, days[old], trace_ids, new, days[new]))


async def _count_again(cursor: Cursor, keys: set[uuid.UUID], days: dict[uuid.UUID, date]) -> int:
    """Sum sessions up from their spans and traces; returns a sequence number later than all of theirs."""
    seq = await _block(cursor)
    for place, key in enumerate(sorted(keys)):
        total = Totals()
        await cursor.execute(_OF_SESSION, (key, days[key]))
        for row in await cursor.fetchall():
            total.add(_from_row(row))
        await cursor.execute("SELECT started_at, ended_at FROM ingest_trace WHERE session_key = %s", (key,))
        for times in await cursor.fetchall():
            total.stretch(*(None if at is None else microseconds(at) for at in times))
        await cursor.execute(CLEAR, (key,))
        await cursor.execute(ADD, {**total.parameters(), "session_key": key, "seq": seq + place})
    await cursor.execute(_DROP_EMPTY, {"keys": sorted(keys)})
    return seq + len(keys)
