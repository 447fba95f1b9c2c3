"""The write path's moving parts on one event loop: writer, key ring, and their connections.

One set per loop, made at first use: daphne has one loop for the life of the process, tests have one each.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import weakref
from collections.abc import Awaitable
from typing import Any

import psycopg
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection

from ingest import retention
from ingest.database import address, connect, presence
from ingest.errors import Refusal, Unavailable, describe
from ingest.keys import LOOKUP, NOTE_USED, KeyRing
from ingest.limits import Allowance, Room
from ingest.writer import RETRY_AFTER_S, Writer

logger = logging.getLogger("ariadne.ingest")

# Looked at in parts: a loop that was held up itself is no sign that the database is away.
_ANSWER_PARTS, _ANSWER_PART_S = 3, 1.0
_LOOK_EVERY_S = 1.0
_LOOK_AGAIN_S = 0.3
_NOTE_EVERY_S = 30.0
_PARTITIONS_EVERY_S = 3600.0


class Service:
    """A writer and what stands in front of it."""

    def __init__(self) -> None:
        self.database = address()
        self.writer = Writer()
        self.keys = KeyRing(self._lookup)
        self.event_rate = Allowance(settings.INGEST_KEY_EVENTS_PER_S, "events")
        self.byte_rate = Allowance(settings.INGEST_KEY_BYTES_PER_S, "bytes")
        self.room = Room(settings.INGEST_MAX_HELD_BYTES)
        self.turn = asyncio.Lock()
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._lock = asyncio.Lock()
        self._away_since = 0.0
        self._abandoned: set[asyncio.Task[Any]] = set()
        self._tasks = [
            asyncio.create_task(self._housekeeping(), name="ingest-housekeeping"),
            asyncio.create_task(self._watching(), name="ingest-watching"),
        ]

    async def query(self, statement: str, arguments: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """One row, over the one connection that is kept for small questions; none while the database is away."""
        _refuse_while_away()
        async with self._lock:
            # Whoever waited while the database did not answer is told at once.
            _refuse_while_away()
            return await self._answer(statement, arguments)

    async def _watching(self) -> None:
        """Know whether the database answers before somebody has to wait for it."""
        while True:
            with contextlib.suppress(Refusal):
                async with self._lock:
                    await self._answer("SELECT 1", ())
            await asyncio.sleep(_LOOK_AGAIN_S if presence.is_away else _LOOK_EVERY_S)

    async def _answer(self, statement: str, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        for attempt in (1, 2):
            asked = asyncio.create_task(self._ask(statement, arguments))
            for _ in range(_ANSWER_PARTS):
                # Not `timeout`: ending a question politely takes seconds where nobody listens, and need not be awaited.
                if (await asyncio.wait({asked}, timeout=_ANSWER_PART_S))[0]:
                    break
            else:
                self._abandon(asked)
                break
            try:
                found = asked.result()
            except (psycopg.OperationalError, psycopg.InterfaceError, OSError):
                await self._disconnect()
                # A connection that died while idle is no sign that the server is away.
                if attempt == 2:
                    break
            except psycopg.Error:
                # Refused, and that is an answer.
                self._note(is_away=False)
                raise
            else:
                self._note(is_away=False)
                return found
        self._note(is_away=True)
        raise Unavailable("the database is away", retry_after_s=RETRY_AFTER_S)

    def _note(self, *, is_away: bool) -> None:
        if is_away == presence.is_away:
            return
        presence.is_away = is_away
        if is_away:
            self._away_since = time.monotonic()
            logger.warning("database_silent: nobody waits for it until it answers again")
            self.writer.give_up()
        else:
            logger.warning("database_back after_s=%.1f", time.monotonic() - self._away_since)

    async def _ask(self, statement: str, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if self._connection is None or self._connection.closed:
            self._connection = await connect(application="ariadne-ingest")
        cursor = await self._connection.execute(statement, arguments)
        return await cursor.fetchone()

    def _abandon(self, asked: asyncio.Task[Any]) -> None:
        self._connection = None
        asked.cancel()
        self._abandoned.add(asked)
        asked.add_done_callback(self._forget)

    def _forget(self, asked: asyncio.Task[Any]) -> None:
        self._abandoned.discard(asked)
        if not asked.cancelled():
            asked.exception()

    async def _housekeeping(self) -> None:
        """Note which keys were used; keep the partitions in order."""
        next_run = 0.0
        while True:
            if time.monotonic() >= next_run:
                next_run = time.monotonic() + _PARTITIONS_EVERY_S
                await self._chore(self._partitions())
            await asyncio.sleep(_NOTE_EVERY_S)
            if used := self.keys.take_used():
                await self._chore(self.query(NOTE_USED, (used,)))

    async def _chore(self, work: Awaitable[Any]) -> None:
        try:
            await work
        except Exception as error:  # the edge of the task: whatever it is, the next chore gets its chance
            logger.warning("housekeeping_put_off %s", describe(error))

    async def _partitions(self) -> None:
        def run() -> retention.Report:
            try:
                return retention.run()
            finally:
                connection.close()

        report = await sync_to_async(run, thread_sensitive=False)()
        if report.dropped or report.thinned:
            logger.info("retention sessions=%d days=%d", report.sessions, len(report.dropped))

    async def _lookup(self, digest: str) -> tuple[Any, ...] | None:
        return await self.query(LOOKUP, (digest,))

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                await connection.close()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        presence.is_away = False
        await self.writer.close()
        await self._disconnect()


def _refuse_while_away() -> None:
    if presence.is_away:
        raise Unavailable("the database is away", retry_after_s=RETRY_AFTER_S)


_services: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Service] = weakref.WeakKeyDictionary()


def service() -> Service:
    """The service of the running loop, for the database that is configured now."""
    loop = asyncio.get_running_loop()
    found = _services.get(loop)
    if found is None or found.database != address():
        found = _services[loop] = Service()
    return found


async def close() -> None:
    """Commit what was accepted and let go of the connections."""
    if (found := _services.pop(asyncio.get_running_loop(), None)) is not None:
        await found.close()
