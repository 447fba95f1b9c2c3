"""Evaluates alert rules and delivers alerts while the server runs.

Each web process has a schedule. Locks in the database make sure that each project is evaluated and each alert is sent
by one of them.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from weakref import WeakKeyDictionary

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection

from viewer.alerts import delivery, evaluation

_log = logging.getLogger("ariadne.alerts")
_tasks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[None]] = WeakKeyDictionary()


def ensure_running() -> None:
    """Start the schedule of this process, once per event loop."""
    loop = asyncio.get_running_loop()
    if settings.ALERT_INTERVAL_S > 0 and loop not in _tasks:
        _tasks[loop] = loop.create_task(_run(), name="alerts")


async def stop() -> None:
    """End the schedule. Pending deliveries are sent by other processes or after the restart."""
    task = _tasks.pop(asyncio.get_running_loop(), None)
    if task is not None:
        task.cancel()
        await asyncio.wait([task])


async def _run() -> None:
    while True:
        await asyncio.sleep(settings.ALERT_INTERVAL_S)
        try:
            await sync_to_async(run_once, thread_sensitive=False)()
        except Exception as error:  # the schedule goes on after any failure
            _log.warning("alerts_failed %s: %s", type(error).__name__, error)


def run_once() -> None:
    """Evaluate all projects and send what is due. A failed evaluation does not stop deliveries."""
    try:
        evaluation.evaluate_all(min_age=timedelta(seconds=settings.ALERT_INTERVAL_S / 2))
    finally:
        try:
            delivery.deliver_due()
        finally:
            connection.close()
