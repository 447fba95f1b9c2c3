"""Count the hourly figures of one session again from its spans."""

from __future__ import annotations

import uuid
from datetime import date

from django.db import connection
from django.db.backends.utils import CursorWrapper

from ingest.decoding.records import Span
from ingest.decoding.span_stats import stats_of
from ingest.decoding.timestamps import to_microseconds
from ingest.models import Session
from ingest.storage.figures import trends
from ingest.storage.figures.aggregates import SessionDelta
from ingest.storage.figures.trends import HourRow
from ingest.storage.payloads import DATA, decode_data

_SPANS = f"""
SELECT trace_id, span_id, parent_id, kind, status, started_at, ended_at, {DATA} FROM ingest_span
WHERE session_key = %s AND session_day = %s AND (kind LIKE 'compact.%%' OR status = 'error')
"""  # noqa: S608 - a constant


def recount_session(project_id: int, key: uuid.UUID, day: date) -> None:
    """Replace the figures of one session. The caller opens the transaction and locks the project."""
    with connection.cursor() as cursor:
        session = Session.objects.get(pk=key)
        delta = _session_delta(cursor, key, day)
        rows = [] if delta.trend is None else delta.trend.rows()
        model = session.trend_model or session.model
        changes = [(old_model, row.negate()) for old_model, row in _stored_rows(cursor, key)]
        cursor.execute(trends.DELETE_ACTIVITY, [[key]])
        if rows:
            cursor.execute(
                trends.ADD_ACTIVITY, trends.activity_parameters(project_id, [(key, model, row) for row in rows])
            )
        parameters = trends.trend_parameters(project_id, [*changes, *((model, row) for row in rows)])
        if parameters:
            cursor.execute(trends.ADD_TREND, parameters)
    lost, total, check = delta.worst or (None, None, None)
    Session.objects.filter(pk=key).update(
        trend_model=model if rows else None,
        worst_lost=lost,
        worst_total=total,
        worst_check=check,
        overflow_count=delta.overflows,
    )


def _session_delta(cursor: CursorWrapper, key: uuid.UUID, day: date) -> SessionDelta:
    delta = SessionDelta()
    cursor.execute(_SPANS, [key, day])
    delta.add(
        Span(
            trace_id=trace_id,
            span_id=span_id,
            parent_id=parent_id,
            kind=kind,
            name="",
            status=status,
            started_us=None if started_at is None else to_microseconds(started_at),
            ended_us=None if ended_at is None else to_microseconds(ended_at),
            data=b"{}",
            payload=None,
            session_id=None,
            stats=stats_of(kind, decode_data(data)),
        )
        for trace_id, span_id, parent_id, kind, status, started_at, ended_at, data in cursor.fetchall()
    )
    return delta


def _stored_rows(cursor: CursorWrapper, key: uuid.UUID) -> list[tuple[str, HourRow]]:
    cursor.execute(trends.READ_ACTIVITY, [[key]])
    return [
        (model, trends.stored_row(hour, counts, kept_counts))
        for _, hour, model, *counts, kept_counts in cursor.fetchall()
    ]
