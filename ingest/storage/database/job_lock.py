"""A lock for jobs that only one process may run at a time."""

from __future__ import annotations

from django.db.backends.utils import CursorWrapper


def try_lock(cursor: CursorWrapper, job: str) -> bool:
    """Take the lock of a job until the end of the transaction. Return False if another process has it."""
    cursor.execute("SELECT pg_try_advisory_xact_lock(hashtext(%s))", [job])
    (is_locked,) = cursor.fetchone() or (False,)
    return bool(is_locked)
