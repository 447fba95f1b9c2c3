"""Writes anchors while the server runs: every hour, and when it stops.

Each web process has a schedule. A lock in the database and the age of the newest anchor make sure that one of them
writes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from weakref import WeakKeyDictionary

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection

from ingest import metrics
from viewer.audit.anchors import anchor_series
from viewer.audit.anchors.anchor_file import Anchor

# How often a process looks whether an anchor is due. The shorter of this and the interval counts.
_CHECK_S = 60.0
_SHUTDOWN_TIMEOUT_S = 4.0
_log = logging.getLogger("ariadne.anchors")
_tasks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[None]] = WeakKeyDictionary()


def ensure_running() -> None:
    """Start the schedule of this process, once per event loop."""
    loop = asyncio.get_running_loop()
    if settings.ANCHOR_INTERVAL_S > 0 and loop not in _tasks:
        _tasks[loop] = loop.create_task(_run(), name="anchors")


async def stop() -> None:
    """End the schedule and anchor what was added since the last anchor."""
    task = _tasks.pop(asyncio.get_running_loop(), None)
    if task is None:
        return
    task.cancel()
    await asyncio.wait([task])
    try:
        await asyncio.wait_for(_write(anchor_series.write_if_changed), _SHUTDOWN_TIMEOUT_S)
    except TimeoutError:
        _log.warning("anchor_failed timeout at shutdown")


async def _run() -> None:
    interval = timedelta(seconds=settings.ANCHOR_INTERVAL_S)
    while True:
        await _write(lambda: anchor_series.write_if_due(interval))
        await asyncio.sleep(min(_CHECK_S, settings.ANCHOR_INTERVAL_S))


async def _write(write: Callable[[], Anchor | None]) -> None:
    """Run a write on a thread. A failure is logged and counted, and the next run tries again."""

    def run() -> Anchor | None:
        try:
            return write()
        finally:
            connection.close()

    try:
        anchor = await sync_to_async(run, thread_sensitive=False)()
    except Exception as error:  # the schedule goes on after any failure of the database or the disk
        metrics.anchor_failures.labels("file").inc()
        _log.warning("anchor_failed %s: %s", type(error).__name__, error)
        return
    if anchor is not None:
        metrics.anchors.inc()
        _log.info("anchor number=%d links=%d audit=%d", anchor.number, anchor.root.count, anchor.audit_position)
