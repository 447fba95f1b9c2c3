"""Why writes fail, in words for senders and operators, logged once per episode.

A full disk or a read-only server answers queries, so it is not unreachable, and it fails every commit for minutes. The
commits of a process and the write check of `/readyz` report here. The first failure and the first success are a line.
"""

from __future__ import annotations

import logging
import re
import time
from dataclasses import dataclass

import psycopg
from psycopg import errors

from ingest.errors import describe

logger = logging.getLogger("ariadne.ingest")


@dataclass(frozen=True, slots=True)
class Cause:
    """A reason, the answer to senders, and what an operator can do."""

    reason: str
    answer: str
    action: str = ""


_NO_CONNECTION = Cause(
    "no free connection",
    "The database has no free connection. Try again later.",
    "raise max_connections of Postgres",
)
# The error of a connection that is refused has no SQLSTATE.
_IS_REFUSED = re.compile(r"too many (clients|connections)|remaining connection slots")
_CAUSES: tuple[tuple[type[BaseException], Cause], ...] = (
    (
        errors.DiskFull,
        Cause("disk full", "The disk of the database is full. Try again later.", "make room on the disk of Postgres"),
    ),
    (
        errors.ReadOnlySqlTransaction,
        Cause("read-only", "The database is read-only. Try again later.", "point DATABASE_URL at the primary server"),
    ),
    (
        errors.UndefinedTable,
        Cause("not migrated", "The database is not migrated. Try again later.", "run manage.py setup"),
    ),
    (
        errors.InsufficientPrivilege,
        Cause(
            "no permission to write",
            "The server may not write to its database. Try again later.",
            "grant the role of DATABASE_URL the right to write",
        ),
    ),
    (errors.TooManyConnections, _NO_CONNECTION),
    (errors.QueryCanceled, Cause("timeout", "The database did not respond in time. Try again later.")),
    (TimeoutError, Cause("timeout", "The database did not respond in time. Try again later.")),
    (psycopg.OperationalError, Cause("unavailable", "The database is unavailable. Try again later.")),
    (psycopg.InterfaceError, Cause("unavailable", "The database is unavailable. Try again later.")),
    (OSError, Cause("unavailable", "The database is unavailable. Try again later.")),
)


_KNOWN = {cause for _kind, cause in _CAUSES}


def find_cause(error: BaseException) -> Cause:
    """Return the cause of an error. Errors of Django have that of psycopg as their own cause, which says more."""
    if error.__cause__ is not None:
        inner = find_cause(error.__cause__)
        if inner in _KNOWN:
            return inner
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None and _IS_REFUSED.search(str(error)):
        return _NO_CONNECTION
    cause = next((known for kind, known in _CAUSES if isinstance(error, kind)), None)
    return cause or Cause(type(error).__name__, "The database rejected the write. Try again later.")


class WriteEpisode:
    """The failure of writes that a process sees at the moment."""

    def __init__(self) -> None:
        self.reason = ""
        self._since = 0.0

    def fail(self, error: BaseException) -> Cause:
        """Remember a failed write, and log it if the reason is new. Return its cause."""
        cause = find_cause(error)
        if cause.reason != self.reason:
            self._since = self._since if self.reason else time.monotonic()
            self.reason = cause.reason
            action = f" action={cause.action!r}" if cause.action else ""
            logger.warning("writes_fail reason=%r%s %s", cause.reason, action, describe(error))
        return cause

    def succeed(self) -> None:
        if self.reason:
            logger.warning("writes_work after_s=%.1f", time.monotonic() - self._since)
            self.reason = ""
