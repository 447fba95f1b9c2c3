"""State of the write path on one event loop: writer, key cache, limits and connections.

Each event loop has one service, created on first use. A server has one loop for the life of the process. Each test has
its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
import weakref
from collections.abc import Awaitable
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection

from ingest.decoding import redaction
from ingest.errors import describe
from ingest.http.decode_pool import DecodePool
from ingest.http.keys import FIND_KEY, UPDATE_LAST_USED, KeyCache
from ingest.http.limits import MemoryLimit, RateLimit
from ingest.storage import retention
from ingest.storage.database.connections import address
from ingest.storage.database.db_probe import DatabaseProbe
from ingest.storage.database.write_check import WriteCheck
from ingest.storage.writer import Writer

logger = logging.getLogger("ariadne.ingest")

_LAST_USED_INTERVAL_S = 30.0
_RETENTION_INTERVAL_S = 3600.0
# With more cores, worker processes run beside the web process instead of competing with it.
_FEW_CORES = 2


class Service:
    """A writer and everything an endpoint needs in front of it."""

    def __init__(self) -> None:
        self.database = address()
        self.writer = Writer(is_decoding=lambda: self.decode_pool.is_busy)
        self.probe = DatabaseProbe(on_unavailable=self.writer.fail_pending)
        self.write_check = WriteCheck()
        self.keys = KeyCache(self._find_key)
        self.event_rate = RateLimit(settings.INGEST_KEY_EVENTS_PER_S, "events")
        self.project_rate = RateLimit(settings.INGEST_PROJECT_EVENTS_PER_S, "events", owner="project")
        self.byte_rate = RateLimit(settings.INGEST_KEY_BYTES_PER_S, "bytes")
        self.memory = MemoryLimit(settings.INGEST_MAX_HELD_BYTES)
        self.decode_pool = DecodePool(
            settings.INGEST_DECODE_PROCESSES,
            timeout_s=settings.INGEST_DECODE_TIMEOUT_S,
            trusts=(os.cpu_count() or 1) <= _FEW_CORES,
        )
        self._maintenance_task = asyncio.create_task(self._run_maintenance(), name="ingest-maintenance")

    async def _run_maintenance(self) -> None:
        """Prepare redaction and workers, record when keys were last used, and create and drop partitions."""
        await asyncio.to_thread(redaction.warm_up)
        await self.decode_pool.warm_up()
        next_run = 0.0
        while True:
            if time.monotonic() >= next_run:
                next_run = time.monotonic() + _RETENTION_INTERVAL_S
                await self._log_failure(self._run_retention())
            await asyncio.sleep(_LAST_USED_INTERVAL_S)
            if used_ids := self.keys.take_used_ids():
                await self._log_failure(self.probe.fetch_row(UPDATE_LAST_USED, (used_ids,)))

    async def _log_failure(self, job: Awaitable[Any]) -> None:
        try:
            await job
        except Exception as error:  # one failed job must not end the maintenance task
            logger.warning("maintenance_failed %s", describe(error))

    async def _run_retention(self) -> None:
        def run() -> retention.Report:
            try:
                return retention.run()
            finally:
                connection.close()

        report = await sync_to_async(run, thread_sensitive=False)()
        if report.dropped_days or report.reduced_days:
            logger.info("retention sessions=%d days=%d", report.session_count, len(report.dropped_days))

    async def _find_key(self, digest: str) -> tuple[Any, ...] | None:
        return await self.probe.fetch_row(FIND_KEY, (digest,))

    async def close(self) -> None:
        self._maintenance_task.cancel()
        await self.decode_pool.close()
        await self.writer.close()
        await self.write_check.close()
        await self.probe.close()


_services: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Service] = weakref.WeakKeyDictionary()


def get_service() -> Service:
    """Return the service of the running loop. A new one is created if the configured database changed."""
    loop = asyncio.get_running_loop()
    service = _services.get(loop)
    if service is None or service.database != address():
        service = _services[loop] = Service()
    return service


async def close() -> None:
    """Commit accepted batches and close the connections of the running loop's service."""
    if (service := _services.pop(asyncio.get_running_loop(), None)) is not None:
        await service.close()
