"""The times of chain links, and the moment at which an anchor takes its fingerprint.

Links are ordered by time. An anchor covers all links up to its time, so no link may appear later with an earlier time.
Writers therefore take their time from the database, under a shared lock, after the time of the newest anchor. An anchor
takes the lock exclusively: it waits for the writers that have a time, and the next ones get a later one, even if the
clock is set back.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction

_LOCK = 0x7E89
_READ_CLOCK = """
SELECT greatest(clock_timestamp(), (SELECT max(until) FROM ingest_anchormark) + interval '1 microsecond')
"""


def link_time(cursor: Any) -> datetime:
    """Return the time of a new link. The caller's transaction holds a shared lock until it commits."""
    cursor.execute("SELECT pg_advisory_xact_lock_shared(%s)", [_LOCK])
    return _now(cursor)


def anchor_time(cursor: Any) -> datetime:
    """Return a time that no later link precedes. Waits for open transactions that add links."""
    assert transaction.get_connection().in_atomic_block
    cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    return _now(cursor)


def _now(cursor: Any) -> datetime:
    cursor.execute(_READ_CLOCK)
    (moment,) = cursor.fetchone()
    assert isinstance(moment, datetime)
    return moment
