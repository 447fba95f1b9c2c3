"""State of the write path of a process: writer, key cache, limits and connections."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from django.conf import settings

from ingest.decoding.door import redaction
from ingest.http.decode_pool import DecodePool
from ingest.http.keys import FIND_KEY, UPDATE_LAST_USED, KeyCache
from ingest.http.limits import MemoryLimit, RateLimit
from ingest.storage.database.db_probe import DatabaseProbe
from ingest.storage.database.nodes import Nodes
from ingest.storage.database.write_check import WriteCheck
from ingest.storage.writer import Writer

# With more cores, worker processes run beside the web process instead of competing with it.
_FEW_CORES = 2


class Service:
    """A writer and everything an endpoint needs in front of it."""

    def __init__(self) -> None:
        self.nodes = Nodes(self._fetch_row)
        self.writer = Writer(is_decoding=lambda: self.decode_pool.is_busy, node_of=self.nodes.of_cell)
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
        self._warm_up_task = asyncio.create_task(self._warm_up(), name="ingest-warm-up")

    async def _warm_up(self) -> None:
        """Prepare redaction and workers, so that the first bodies do not wait for them."""
        await asyncio.to_thread(redaction.warm_up)
        await self.decode_pool.warm_up()

    async def record_key_use(self) -> None:
        """Store when the keys of the last requests were used."""
        if used_ids := self.keys.take_used_ids():
            await self.probe.fetch_row(UPDATE_LAST_USED, (used_ids,))

    async def _find_key(self, digest: str) -> tuple[Any, ...] | None:
        return await self._fetch_row(FIND_KEY, (digest,))

    async def _fetch_row(self, statement: str, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        return await self.probe.fetch_row(statement, arguments)

    async def close(self) -> None:
        """Commit accepted batches, then end the processes and close the connections."""
        self._warm_up_task.cancel()
        await self.decode_pool.close()
        await self.writer.close()
        await self.nodes.close()
        await self.write_check.close()
        await self.probe.close()


_running: list[Service] = []


@asynccontextmanager
async def run_service() -> AsyncIterator[Service]:
    """Run the service that `get_service` returns until the end of the block."""
    service = Service()
    _running.append(service)
    try:
        yield service
    finally:
        _running.remove(service)
        await service.close()


def find_service() -> Service | None:
    """Return the service of this process, or None in a process that serves no requests."""
    return _running[-1] if _running else None


def get_service() -> Service:
    """Return the service of this process."""
    return _running[-1]
