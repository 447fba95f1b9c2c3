"""Small questions to the database over one connection, and whether it answers at all.

Asked every second, and with every question of others, it is known to be away before anybody has to wait for it: then
nobody does (`ingest.storage.connections.presence`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any

import psycopg

from ingest.http.errors import Refusal, Unavailable
from ingest.storage.connections import connect, presence

logger = logging.getLogger("ariadne.ingest")

# Looked at in parts: a loop that was held up itself is no sign that the database is away.
_ANSWER_PARTS, _ANSWER_PART_S = 3, 1.0
_LOOK_EVERY_S = 1.0
_LOOK_AGAIN_S = 0.3


class Questions:
    """One connection, one question at a time. `on_silence` is called when the database stops answering."""

    def __init__(self, *, on_silence: Callable[[], None]) -> None:
        self._on_silence = on_silence
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._lock = asyncio.Lock()
        self._away_since = 0.0
        self._abandoned: set[asyncio.Task[Any]] = set()
        self._watch = asyncio.create_task(self._watching(), name="ingest-watching")

    async def ask(self, statement: str, arguments: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """One row, over the one connection that is kept for small questions; none while the database is away."""
        presence.require()
        async with self._lock:
            # Whoever waited while the database did not answer is told at once.
            presence.require()
            return await self._answered(statement, arguments)

    async def _watching(self) -> None:
        """Know whether the database answers before somebody has to wait for it."""
        while True:
            with contextlib.suppress(Refusal, psycopg.Error):
                async with self._lock:
                    await self._answered("SELECT 1", ())
            await asyncio.sleep(_LOOK_AGAIN_S if presence.is_away else _LOOK_EVERY_S)

    async def _answered(self, statement: str, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        for attempt in (1, 2):
            asked = asyncio.create_task(self._row(statement, arguments))
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
        raise Unavailable("the database is away")

    def _note(self, *, is_away: bool) -> None:
        if is_away == presence.is_away:
            return
        presence.is_away = is_away
        if is_away:
            self._away_since = time.monotonic()
            logger.warning("database_silent: nobody waits for it until it answers again")
            self._on_silence()
        else:
            logger.warning("database_back after_s=%.1f", time.monotonic() - self._away_since)

    async def _row(self, statement: str, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
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

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                await connection.close()

    async def close(self) -> None:
        self._watch.cancel()
        presence.is_away = False
        await self._disconnect()
