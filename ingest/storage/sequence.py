"""The sequence numbers of a cell and its lock, which are one row.

A transaction takes its numbers before it reads anything else of the cell, and the row stays locked until it ends. So
numbers increase in commit order, and nothing that the transaction read changes before it writes.

Numbers are at least the microseconds since 1970, which makes those of different cells comparable.
"""

from __future__ import annotations

import time

from django.db.backends.utils import CursorWrapper

from ingest.storage.database.pipeline import Query

# Citus accepts only immutable functions here, so the time is a parameter.
_TAKE = """
INSERT INTO ingest_cell AS c (cell, seq) VALUES (%(cell)s, %(newest)s)
ON CONFLICT (cell) DO UPDATE SET seq = greatest(c.seq + %(count)s, excluded.seq)
RETURNING seq - %(count)s + 1
"""


def take(cell: int, count: int) -> Query:
    """Return the query that locks a cell and takes numbers. Its row is the first of them."""
    return _TAKE, {"cell": cell, "newest": time.time_ns() // 1000 + count, "count": count}


def lock(cursor: CursorWrapper, cell: int) -> None:
    """Lock a cell until the end of the caller's transaction."""
    cursor.execute(*take(cell, 0))
