"""The write path's moving parts on one event loop: writer, key ring, and their connections.

One set per loop, made at first use: daphne has one loop for the life of the process, tests have one each.
"""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from collections.abc import Awaitable
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection

from ingest.http.errors import describe
from ingest.http.keys import FIND_KEY, UPDATE_LAST_USED, KeyCache
from ingest.http.limits import Allowance, Room
from ingest.storage import retention
from ingest.storage.connections import address
from ingest.storage.db_probe import Questions
from ingest.storage.writer import Writer

logger = logging.getLogger("ariadne.ingest")

_NOTE_EVERY_S = 30.0
_PARTITIONS_EVERY_S = 3600.0


class Service:
    """A writer and what stands in front of it."""

    def __init__(self) -> None:
        self.database = address()
        self.writer = Writer()
        self.questions = Questions(on_silence=self.writer.give_up)
        self.keys = KeyCache(self._lookup)
        self.event_rate = Allowance(settings.INGEST_KEY_EVENTS_PER_S, "events")
        self.byte_rate = Allowance(settings.INGEST_KEY_BYTES_PER_S, "bytes")
        self.room = Room(settings.INGEST_MAX_HELD_BYTES)
        self.turn = asyncio.Lock()
        self._chores = asyncio.create_task(self._housekeeping(), name="ingest-housekeeping")

    async def _housekeeping(self) -> None:
        """Note which keys were used; keep the partitions in order."""
        next_run = 0.0
        while True:
            if time.monotonic() >= next_run:
                next_run = time.monotonic() + _PARTITIONS_EVERY_S
                await self._chore(self._partitions())
            await asyncio.sleep(_NOTE_EVERY_S)
            if used := self.keys.take_used_ids():
                await self._chore(self.questions.ask(UPDATE_LAST_USED, (used,)))

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
        return await self.questions.ask(FIND_KEY, (digest,))

    async def close(self) -> None:
        self._chores.cancel()
        await self.writer.close()
        await self.questions.close()


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
