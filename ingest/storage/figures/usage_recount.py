"""Count the billed tokens of one session again from its spans."""

from __future__ import annotations

import uuid
from datetime import date, datetime

from django.db import connection

from ingest.decoding.span_stats import SUMMARY_KINDS, stats_of
from ingest.decoding.timestamps import to_microseconds
from ingest.storage.figures import usage
from ingest.storage.figures.usage import UsageDelta
from ingest.storage.payloads import DATA, decode_data

_CALLS = f"""
SELECT kind, {DATA}, COALESCE(ended_at, started_at) FROM ingest_span
WHERE session_key = %s AND session_day = %s AND kind = ANY(%s)
"""  # noqa: S608 - a constant
_KINDS = ["generation", *sorted(SUMMARY_KINDS)]


def recount_session(project_id: int, key: uuid.UUID, day: date) -> None:
    """Replace the usage of one session. The caller opens the transaction and locks the project."""
    with connection.cursor() as cursor:
        cursor.execute(_CALLS, [key, day, _KINDS])
        rows = list(_delta(cursor.fetchall()).rows(key))
        cursor.execute(usage.DELETE, [key])
        changes = [*map(usage.negate, cursor.fetchall()), *rows]
        if rows:
            cursor.execute(usage.ADD, usage.add_parameters(project_id, rows))
        if changes:
            cursor.execute(usage.ADD_HOURLY, usage.add_parameters(project_id, changes))


def sum_hours(project_id: int) -> None:
    """Sum the usage of a project's sessions again. The caller opens the transaction and locks the project.

    Needed after a rolling upgrade, in which processes of a version without these sums stored sessions.
    """
    with connection.cursor() as cursor:
        cursor.execute(usage.DELETE_HOURLY, [project_id])
        cursor.execute(usage.SUM_HOURLY, [project_id])


def _delta(calls: list[tuple[str, bytes, datetime | None]]) -> UsageDelta:
    delta = UsageDelta()
    for kind, data, at in calls:
        stats = stats_of(kind, decode_data(data))
        if stats.usage is not None:
            delta.add(stats.usage, None if at is None else to_microseconds(at), 1)
    return delta
