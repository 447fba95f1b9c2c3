"""Count a session again from its spans: after one of its traces moved, and in `manage.py recount`.

The steps are a generator, because a commit sends them through its pipeline and a recount through Django's connection.
The caller holds the lock of the cell.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterator
from datetime import date
from typing import Any

from django.db.backends.utils import CursorWrapper

from ingest.decoding.records import Span
from ingest.decoding.span_stats import stats_of
from ingest.decoding.timestamps import to_microseconds
from ingest.storage.database.pipeline import Pipeline, Query, Rows
from ingest.storage.figures import trends, usage
from ingest.storage.figures.aggregates import RESET_SESSION, UPDATE_SESSIONS, SessionDelta, update_parameters
from ingest.storage.figures.shared_reports import take_out
from ingest.storage.payloads import decode_data

Steps = Generator[tuple[Query, ...], list[Rows], None]
"""Each step is a group of queries, which is answered with the rows of each."""
Queue = Callable[[str, Any], object]
"""Run a statement whose rows are not needed."""
SPAN_COLUMNS = "trace_id, span_id, parent_id, kind, name, status, started_at, ended_at, data"
"""The columns that `read_span` reads, except the payload."""

# Everything that figures need, which excludes payloads.
_SPANS = f"SELECT {SPAN_COLUMNS}, NULL FROM ingest_span WHERE cell = %s AND session_key = %s AND session_day = %s"  # noqa: S608
_TRACE_TIMES = "SELECT started_at, ended_at FROM ingest_trace WHERE cell = %s AND session_key = %s"


def rebuild_session(queue: Queue, cell: int, key: uuid.UUID, day: date, seq: int) -> Steps:
    """Replace all figures of a session. `seq` is its new sequence number if that is higher than the old one."""
    spans, traces, hours, billed = yield (
        (_SPANS, (cell, key, day)),
        (_TRACE_TIMES, (cell, key)),
        (trends.READ_ACTIVITY, (cell, [key])),
        (usage.DELETE, (cell, key)),
    )
    delta = SessionDelta()
    reports: list[Span] = []
    delta.add(_read_spans(spans, reports))
    take_out(delta, reports)
    for times in traces:
        delta.extend(*(None if at is None else to_microseconds(at) for at in times))
    queue(RESET_SESSION, (cell, key))
    (sessions,) = yield ((UPDATE_SESSIONS, update_parameters(cell, [delta.row(key, seq)])),)
    for _, model, trend_model in sessions:
        _replace_hours(queue, cell, key, delta, hours, model, trend_model)
    new_rows = [] if delta.usage is None else list(delta.usage.rows(key))
    if new_rows:
        queue(usage.ADD, usage.add_parameters(cell, new_rows))
    if changes := [*map(usage.negate, billed), *new_rows]:
        queue(usage.ADD_HOURLY, usage.hourly_parameters(cell, changes))


def _replace_hours(
    queue: Queue, cell: int, key: uuid.UUID, delta: SessionDelta, hours: Rows, model: str, trend_model: str | None
) -> None:
    """Replace the hourly figures of a session. It stays with the model that it was first counted under."""
    rows = [] if delta.trend is None else delta.trend.rows()
    new_model = (trend_model or model) if rows else None
    queue(trends.DELETE_ACTIVITY, (cell, [key]))
    for query in trends.add_activity(cell, [(key, new_model or "", row) for row in rows]):
        queue(*query)
    removed = [
        (old_model, trends.stored_row(hour, counts, kept_counts).negate())
        for _, hour, old_model, *counts, kept_counts in hours
    ]
    for query in trends.add_trends(cell, [*removed, *((new_model or "", row) for row in rows)]):
        queue(*query)
    if new_model != trend_model:
        queue(trends.SET_SESSION_MODEL, {"cell": cell, "keys": [key], "models": [new_model]})


async def run_in_pipeline(pipeline: Pipeline, steps: Steps) -> None:
    """Run the steps in the transaction of a commit."""
    try:
        queries = next(steps)
        while True:
            queries = steps.send(await pipeline.fetch(*queries))
    except StopIteration:
        return


def run_with_cursor(cursor: CursorWrapper, steps: Steps) -> None:
    """Run the steps in the caller's transaction."""

    def fetch(query: Query) -> Rows:
        cursor.execute(*query)
        rows: Rows = cursor.fetchall()
        return rows

    try:
        queries = next(steps)
        while True:
            queries = steps.send([fetch(query) for query in queries])
    except StopIteration:
        return


def _read_spans(rows: Rows, reports: list[Span]) -> Iterator[Span]:
    """Yield the spans one by one, because a session may have a million. Add shared reports to `reports`."""
    for span in map(read_span, rows):
        if span.stats.event.is_shared_report:
            reports.append(span)
        yield span


def read_span(row: tuple[Any, ...]) -> Span:
    """Return a stored span, given as `SPAN_COLUMNS` and its payload."""
    trace_id, span_id, parent_id, kind, name, status, started_at, ended_at, data, payload = row
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        kind=kind,
        name=name,
        status=status,
        started_us=None if started_at is None else to_microseconds(started_at),
        ended_us=None if ended_at is None else to_microseconds(ended_at),
        data=data,
        payload=payload,
        session_id=None,
        stats=stats_of(kind, decode_data(data)),
    )
