"""Count every figure of stored sessions again from their spans.

Needed after an upgrade that counts something new or in another way. Agents can send at the same time. Running it again
changes nothing, and a run that was interrupted continues after the last session it reported.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date

from django.db import connection, transaction

from ingest.cells import project_of
from ingest.models import Session
from ingest.storage import sequence
from ingest.storage.figures import trends, usage
from ingest.storage.figures.rebuild import rebuild_session, run_with_cursor
from ingest.storage.sequence import stored_cells


@dataclass(frozen=True, slots=True)
class Progress:
    """The session that was counted last, by its cell and key, and how many of all."""

    position: tuple[int, uuid.UUID]
    count: int
    total: int


def recount(project_id: int | None = None, *, after: tuple[int, uuid.UUID] | None = None) -> Iterator[Progress]:
    """Count each session after a position again, in its own transaction. Then sum the hours of each cell."""
    cells = _cells_to_count(project_id)
    first_cell, first_key = after or (0, uuid.UUID(int=0))
    done = _count_sessions(cell for cell in cells if cell < first_cell)
    count = done + Session.objects.filter(cell=first_cell, session_key__lte=first_key).count()
    left = [cell for cell in cells if cell >= first_cell]
    total = done + _count_sessions(left)
    for cell in left:
        sessions = Session.objects.filter(cell=cell).order_by("session_key")
        if cell == first_cell:
            sessions = sessions.filter(session_key__gt=first_key)
        for key, day in sessions.values_list("session_key", "day").iterator(1000):
            _recount_session(cell, key, day)
            count += 1
            yield Progress((cell, key), count, total)
    for cell in cells:
        sum_hours(cell)


def _cells_to_count(project_id: int | None) -> list[int]:
    return [cell for cell in stored_cells() if project_id is None or project_of(cell) == project_id]


def _recount_session(cell: int, key: uuid.UUID, day: date) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        sequence.lock(cursor, cell)
        run_with_cursor(cursor, rebuild_session(cursor.execute, cell, key, day, 0))


def _count_sessions(cells: Iterable[int]) -> int:
    return sum(Session.objects.filter(cell=cell).count() for cell in cells)


def sum_hours(cell: int) -> None:
    """Sum the hours of a cell's sessions again.

    Needed after a rolling upgrade, in which processes of a version without these sums stored sessions.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        sequence.lock(cursor, cell)
        for statement in (trends.DELETE_TREND, trends.SUM_TREND, usage.DELETE_HOURLY, usage.SUM_HOURLY):
            cursor.execute(statement, {"cell": cell})
