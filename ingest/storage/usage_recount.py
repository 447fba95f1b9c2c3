"""Count the billed tokens of sessions again from their spans.

Needed for sessions that were stored by a version without usage. Running it again changes nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import date, datetime

import msgspec
from django.db import connection, transaction

from ingest.decoding.span_stats import stats_of
from ingest.decoding.timestamps import to_microseconds
from ingest.models import Session
from ingest.storage import usage
from ingest.storage.commit import LOCK_SPACE
from ingest.storage.usage import UsageDelta

_CALLS = """
SELECT kind, data::text, COALESCE(ended_at, started_at) FROM ingest_span
WHERE session_key = %s AND session_day = %s AND kind IN ('generation', 'compact.summary_created')
"""


def recount(project_id: int | None = None) -> Iterator[uuid.UUID]:
    """Count each session again, in its own transaction, and yield its key."""
    sessions = Session.objects.order_by("project_id", "session_key")
    if project_id is not None:
        sessions = sessions.filter(project_id=project_id)
    for owner_id, key, day in sessions.values_list("project_id", "session_key", "day").iterator(chunk_size=1000):
        with transaction.atomic():
            recount_session(owner_id, key, day)
        yield key


def recount_session(project_id: int, key: uuid.UUID, day: date) -> None:
    """Replace the usage of one session. The caller opens the transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [LOCK_SPACE, project_id])
        cursor.execute(_CALLS, [key, day])
        rows = list(_delta(cursor.fetchall()).rows(key))
        cursor.execute(usage.DELETE, [key])
        if rows:
            cursor.execute(usage.ADD, usage.add_parameters(project_id, rows))


def _delta(calls: list[tuple[str, str, datetime | None]]) -> UsageDelta:
    delta = UsageDelta()
    for kind, data, at in calls:
        stats = stats_of(kind, msgspec.json.decode(data))
        if stats.usage is not None:
            delta.add(stats.usage, None if at is None else to_microseconds(at), 1)
    return delta
