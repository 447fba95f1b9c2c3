"""Count the trends and billed tokens of sessions again from their spans.

Needed for sessions that were stored by a version without trends or costs. Running it again changes nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from django.db import connection, transaction

from ingest.models import Session
from ingest.storage.commit import LOCK_SPACE
from ingest.storage.figures import trend_recount, usage_recount


def recount(project_id: int | None = None) -> Iterator[uuid.UUID]:
    """Count each session again, in its own transaction, and yield its key."""
    sessions = Session.objects.order_by("project_id", "session_key")
    if project_id is not None:
        sessions = sessions.filter(project_id=project_id)
    owner_ids = set()
    for owner_id, key, day in sessions.values_list("project_id", "session_key", "day").iterator(chunk_size=1000):
        with transaction.atomic():
            _lock(owner_id)
            trend_recount.recount_session(owner_id, key, day)
            usage_recount.recount_session(owner_id, key, day)
        owner_ids.add(owner_id)
        yield key
    for owner_id in sorted(owner_ids):
        with transaction.atomic():
            _lock(owner_id)
            usage_recount.sum_hours(owner_id)


def _lock(project_id: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [LOCK_SPACE, project_id])
