"""The sequence numbers of a cell and its lock, which are one row.

A transaction takes its numbers before it reads anything else of the cell, and the row stays locked until it ends. So
numbers increase in commit order, and nothing that the transaction read changes before it writes.

Numbers are at least the microseconds since 1970, which makes those of different cells comparable.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from ingest.cells import cells_of, learn
from ingest.models import Cell, Project
from ingest.storage.database.pipeline import Query

# Citus accepts only immutable functions here, so the time is a parameter.
_TAKE = """
INSERT INTO ingest_cell AS c (cell, seq) VALUES (%(cell)s, %(newest)s)
ON CONFLICT (cell) DO UPDATE SET seq = greatest(c.seq + %(count)s, excluded.seq)
RETURNING seq - %(count)s + 1, cell_count
"""


def take(cell: int, count: int) -> Query:
    """Return the query that locks a cell and takes numbers. Its row is the first one, and the cells of its project."""
    return _TAKE, {"cell": cell, "newest": time.time_ns() // 1000 + count, "count": count}


def lock(cursor: CursorWrapper, cell: int) -> None:
    """Lock a cell until the end of the caller's transaction."""
    cursor.execute(*take(cell, 0))


def settle(cells: Iterable[int]) -> int:
    """Return a number up to which everything in these cells is committed, now and later.

    Numbers of different cells do not follow the order of their commits. So this waits for the commits in progress, and
    makes later ones take higher numbers.
    """
    numbers = []
    for cell in cells:
        with connection.cursor() as cursor:
            cursor.execute(*take(cell, 0))
            numbers += [int(first) - 1 for first, _ in cursor.fetchall()]
    return min(numbers)


def set_cell_count(project_id: int, count: int) -> None:
    """Give a project more cells. Sessions that exist stay where they are.

    A commit reads the number under the lock of each of its cells. So no process stores a session in an old cell that
    belongs to a new one, and one that did not know the number starts again.
    """
    learn([(project_id, count)])
    with transaction.atomic(), connection.cursor() as cursor:
        for cell in cells_of(project_id):
            lock(cursor, cell)
            Cell.objects.filter(cell=cell).update(cell_count=count)
        Project.objects.filter(pk=project_id).update(cell_count=count)


def stored_cells() -> list[int]:
    """Return all cells that have rows, also those of deleted projects."""
    return list(Cell.objects.order_by("cell").values_list("cell", flat=True))
