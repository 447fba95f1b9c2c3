"""Keep the search index up to date while the server runs.

Each web process looks for changes once a second, and a lock in the database lets one of them write. While there is a
backlog, a process works at most half of the time, so that ingest and pages keep the CPU.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from weakref import WeakKeyDictionary

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection

from viewer.search import indexer

_IDLE_S, _RETRY_S = 1.0, 5.0
_log = logging.getLogger("ariadne.search")
_tasks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[None]] = WeakKeyDictionary()


def ensure_running() -> None:
    """Start the schedule of this process, once per event loop."""
    loop = asyncio.get_running_loop()
    if settings.SEARCH_INDEX and loop not in _tasks:
        _tasks[loop] = loop.create_task(_run(), name="search-index")


async def stop() -> None:
    """End the schedule. The next process continues where this one stopped."""
    task = _tasks.pop(asyncio.get_running_loop(), None)
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _run() -> None:
    while True:
        began = time.monotonic()
        try:
            has_more = await sync_to_async(_index, thread_sensitive=False)()
        except Exception as error:  # the schedule goes on after any failure of the database
            _log.warning("search_index_failed %s: %s", type(error).__name__, error)
            await asyncio.sleep(_RETRY_S)
            continue
        await asyncio.sleep(time.monotonic() - began if has_more else _IDLE_S)


def _index() -> bool:
    try:
        return indexer.run_once()
    finally:
        connection.close()
