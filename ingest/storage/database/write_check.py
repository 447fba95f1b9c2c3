"""Try a write, for `/readyz`.

A database that answers queries may still reject every commit: read-only after a failover, a full disk, a worker of a
cluster that is down. The check therefore grows a file, writes to the log, and commits. It leaves nothing behind: the
rows go to a temporary table, which the commit empties.

Anyone may ask, so an answer counts for a second, and all who ask at the same time wait for the same check.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from ingest.storage.database.connections import connect
from ingest.storage.database.write_failures import WriteEpisode

CACHE_S = 1.0
_TIMEOUT_S = 3.0
# Rows below the size at which Postgres compresses them: 64 kB, which do not fit into the free space of a page.
_WRITES = (
    "CREATE TEMPORARY TABLE IF NOT EXISTS ready (filler text) ON COMMIT DELETE ROWS",
    "INSERT INTO ready SELECT repeat('ready ', 320) FROM generate_series(1, 32)",
    # Temporary tables are not logged, and a commit without a log record does not wait for the disk.
    "SELECT pg_logical_emit_message(true, 'ariadne', 'ready')",
    # The schema is there, and this role may write to it.
    "DELETE FROM ingest_span WHERE false",
)


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The reason why writes fail, or none."""

    reason: str = ""


class WriteCheck:
    """Try a write on a connection of its own, so that ingest and pages do not wait for it."""

    def __init__(self, *, open_connection: Callable[..., Awaitable[psycopg.AsyncConnection[Any]]] = connect) -> None:
        self._open = open_connection
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._task: asyncio.Task[WriteResult] | None = None
        self._checked_at = 0.0
        self._episode = WriteEpisode()
        self._abandoned: set[asyncio.Task[Any]] = set()

    async def result(self) -> WriteResult:
        """Return the result of the last check, of the one that is running, or of a new one."""
        if self._task is None or (self._task.done() and time.monotonic() - self._checked_at >= CACHE_S):
            self._task = asyncio.create_task(self._check(), name="ingest-write-check")
        # A request that ends does not cancel the check that others wait for.
        return await asyncio.shield(self._task)

    async def _check(self) -> WriteResult:
        writing = asyncio.create_task(self._write())
        # Canceling a query waits for a server that may be frozen, so a late one is left alone.
        done, _pending = await asyncio.wait({writing}, timeout=_TIMEOUT_S)
        error = writing.exception() if done else TimeoutError()
        if error is not None:
            self._abandon(writing)
        self._checked_at = time.monotonic()
        if error is None:
            self._episode.succeed()
            return WriteResult()
        return WriteResult(self._episode.fail(error).reason)

    async def _write(self) -> None:
        if (connection := self._connection) is not None and not connection.closed:
            try:
                await _write_on(connection)
            except psycopg.OperationalError:
                if not connection.closed:
                    raise
                # The server was restarted since the last check. Only a new connection shows whether it works.
            else:
                return
        self._connection = await self._open(application="ariadne-ready")
        await _write_on(self._connection)

    def _abandon(self, writing: asyncio.Task[None]) -> None:
        """Use a new connection for the next check, and close this one as soon as its query ends."""
        connection, self._connection = self._connection, None

        async def close() -> None:
            with contextlib.suppress(Exception):
                await writing
            if connection is not None:
                await connection.close()

        task = asyncio.create_task(close())
        self._abandoned.add(task)
        task.add_done_callback(self._abandoned.discard)

    async def close(self) -> None:
        for task in (self._task, *self._abandoned):
            if task is not None:
                task.cancel()
        if self._connection is not None:
            await self._connection.close()


async def _write_on(connection: psycopg.AsyncConnection[Any]) -> None:
    async with connection.transaction():
        for statement in _WRITES:
            await connection.execute(statement)
