"""Ping the database and run small queries on one connection.

The ping every second lets requests fail fast while Postgres is down: the result is kept in
`ingest.storage.database.connections.database_status`, and that of a node of a cluster in a status of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any

import psycopg

from ingest.errors import RequestError, Unavailable
from ingest.storage.database.connections import CONNECTION_ERRORS, DatabaseStatus, Node, connect, database_status

logger = logging.getLogger("ariadne.ingest")

# The timeout is split into parts so that a blocked event loop is not mistaken for a database that is down.
_TIMEOUT_PARTS, _TIMEOUT_PART_S = 3, 1.0
_PING_INTERVAL_S = 1.0
_PING_INTERVAL_WHILE_DOWN_S = 0.3


class DatabaseProbe:
    """Run one query at a time on one connection. `on_unavailable` is called when the database stops responding."""

    def __init__(
        self,
        *,
        on_unavailable: Callable[[], None],
        node: Node | None = None,
        status: DatabaseStatus = database_status,
    ) -> None:
        self._on_unavailable = on_unavailable
        self._node = node
        self._suffix = "" if node is None else f" node={node.host}:{node.port}"
        self._status = status
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._lock = asyncio.Lock()
        self._down_since = 0.0
        self._abandoned: set[asyncio.Task[Any]] = set()
        self._ping_task = asyncio.create_task(self._ping_periodically(), name="ingest-db-probe")

    async def fetch_row(self, statement: str, arguments: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """Return the first row of a query. Raise `Unavailable` while the database is down."""
        self._status.require_available()
        async with self._lock:
            # The database may have failed while this call waited for the lock.
            self._status.require_available()
            return await self._query(statement, arguments)

    async def _ping_periodically(self) -> None:
        while True:
            with contextlib.suppress(RequestError, psycopg.Error):
                async with self._lock:
                    await self._query("SELECT 1", ())
            is_available = self._status.is_available
            await asyncio.sleep(_PING_INTERVAL_S if is_available else _PING_INTERVAL_WHILE_DOWN_S)

    async def _query(self, statement: str, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        # The second attempt covers a connection that was dropped while idle, which does not mean the server is down.
        for _attempt in range(2):
            task = asyncio.create_task(self._execute(statement, arguments))
            if not await self._wait(task):
                self._abandon(task)
                break
            try:
                row = task.result()
            except CONNECTION_ERRORS:
                await self._disconnect()
            except psycopg.Error:
                # The server answered with an error, so it is available.
                self._set_available(True)
                raise
            else:
                self._set_available(True)
                return row
        self._set_available(False)
        raise Unavailable("The database is unavailable. Try again later.")

    async def _wait(self, task: asyncio.Task[Any]) -> bool:
        """Wait for a query. Return False if it timed out."""
        for _part in range(_TIMEOUT_PARTS):
            # `asyncio.timeout` would wait for psycopg to cancel the query, which takes seconds on a frozen server.
            done, _pending = await asyncio.wait({task}, timeout=_TIMEOUT_PART_S)
            if done:
                return True
        return False

    def _set_available(self, is_available: bool) -> None:
        if is_available == self._status.is_available:
            return
        self._status.is_available = is_available
        if is_available:
            logger.warning("database_available after_s=%.1f%s", time.monotonic() - self._down_since, self._suffix)
        else:
            self._down_since = time.monotonic()
            logger.warning("database_unavailable: requests fail immediately until it responds%s", self._suffix)
            self._on_unavailable()

    async def _execute(self, statement: str, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if self._connection is None or self._connection.closed:
            self._connection = await connect(application="ariadne-ingest", node=self._node)
        cursor = await self._connection.execute(statement, arguments)
        return await cursor.fetchone()

    def _abandon(self, task: asyncio.Task[Any]) -> None:
        """Cancel a query without waiting for the cancellation, and use a new connection for the next one."""
        self._connection = None
        task.cancel()
        self._abandoned.add(task)
        task.add_done_callback(self._discard)

    def _discard(self, task: asyncio.Task[Any]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled():  # codespell:ignore
            task.exception()  # marks it as retrieved, otherwise asyncio logs it

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                await connection.close()

    async def close(self) -> None:
        self._ping_task.cancel()
        self._status.is_available = True
        await self._disconnect()
