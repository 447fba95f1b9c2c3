"""The write path's moving parts on one event loop: writer, key ring, and their connections.

One set per loop, made at first use: daphne has one loop for the life of the process, tests have one each.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from typing import Any

import psycopg
from django.conf import settings

from ingest.database import connect, parameters
from ingest.errors import Unavailable
from ingest.keys import LOOKUP, KeyRing
from ingest.limits import Allowance, Room
from ingest.writer import RETRY_AFTER_S, Writer

_LOOKUP_TIMEOUT_S = 5.0


class Service:
    """A writer and what stands in front of it."""

    def __init__(self) -> None:
        self.database = parameters()
        self.writer = Writer()
        self.keys = KeyRing(self._lookup)
        self.event_rate = Allowance(settings.INGEST_KEY_EVENTS_PER_S, "events")
        self.byte_rate = Allowance(settings.INGEST_KEY_BYTES_PER_S, "bytes")
        self.room = Room(settings.INGEST_MAX_HELD_BYTES)
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._lock = asyncio.Lock()

    async def query(self, statement: str, arguments: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """One row, over the one connection that is kept for small questions."""
        async with self._lock:
            for attempt in (1, 2):
                try:
                    async with asyncio.timeout(_LOOKUP_TIMEOUT_S):
                        if self._connection is None or self._connection.closed:
                            self._connection = await connect(application="ariadne-ingest")
                        cursor = await self._connection.execute(statement, arguments)
                        return await cursor.fetchone()
                except (psycopg.OperationalError, psycopg.InterfaceError, OSError, TimeoutError):
                    await self._disconnect()
                    # A connection that died while idle is no sign that the server is away.
                    if attempt == 2:
                        raise Unavailable("the database is away", retry_after_s=RETRY_AFTER_S) from None
        return None

    async def _lookup(self, digest: str) -> tuple[Any, ...] | None:
        return await self.query(LOOKUP, (digest,))

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                await connection.close()

    async def close(self) -> None:
        await self.writer.close()
        await self._disconnect()


_services: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Service] = weakref.WeakKeyDictionary()


def service() -> Service:
    """The service of the running loop, for the database that is configured now."""
    loop = asyncio.get_running_loop()
    found = _services.get(loop)
    if found is None or found.database != parameters():
        found = _services[loop] = Service()
    return found


async def close() -> None:
    """Commit what was accepted and let go of the connections."""
    if (found := _services.pop(asyncio.get_running_loop(), None)) is not None:
        await found.close()
