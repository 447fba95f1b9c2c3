"""Count every figure of stored sessions again from their spans.

Needed after an upgrade that counts something new or in another way. Agents can send at the same time. Running it again
changes nothing, and a run that was interrupted continues after the last session it reported.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from django.db import connection, transaction

from ingest.cells import cell_of, cells_of
from ingest.models import Session
from ingest.storage import sequence
from ingest.storage.figures import trends, usage
from ingest.storage.figures.rebuild import rebuild_session, run_with_cursor


@dataclass(frozen=True, slots=True)
class Progress:
    """The session that was counted last, and how many of all."""

    key: uuid.UUID
    count: int
    total: int


def recount(project_id: int | None = None, *, after: uuid.UUID | None = None) -> Iterator[Progress]:
    """Count each session after a key again, in its own transaction. Then sum the hours of each cell."""
    sessions = Session.objects.order_by("session_key")
    if project_id is not None:
        sessions = sessions.filter(project_id=project_id)
    owner_ids = sorted(set(sessions.order_by().values_list("project_id", flat=True).distinct()))
    total = sessions.count()
    if after is not None:
        sessions = sessions.filter(session_key__gt=after)
    done = total - sessions.count()
    rows = sessions.values_list("project_id", "session_key", "day").iterator(chunk_size=1000)
    for count, (owner_id, key, day) in enumerate(rows, done + 1):
        with transaction.atomic(), connection.cursor() as cursor:
            cell = cell_of(owner_id, key)
            sequence.lock(cursor, cell)
            run_with_cursor(cursor, rebuild_session(cursor.execute, cell, key, day, 0))
        yield Progress(key, count, total)
    for cell in cells_of(*owner_ids):
        sum_hours(cell)


def sum_hours(cell: int) -> None:
    """Sum the hours of a cell's sessions again.

    Needed after a rolling upgrade, in which processes of a version without these sums stored sessions.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        sequence.lock(cursor, cell)
        for statement in (trends.DELETE_TREND, trends.SUM_TREND, usage.DELETE_HOURLY, usage.SUM_HOURLY):
            cursor.execute(statement, {"cell": cell})
