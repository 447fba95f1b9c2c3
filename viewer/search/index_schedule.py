"""Run the process that keeps the search index up to date, beside each web process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
from weakref import WeakKeyDictionary

from django.conf import settings

_RETRY_S, _STOP_TIMEOUT_S = 5.0, 2.0
_log = logging.getLogger("ariadne.search")
_tasks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[None]] = WeakKeyDictionary()


def ensure_running() -> None:
    """Start the index process of this web process, once per event loop."""
    loop = asyncio.get_running_loop()
    if settings.SEARCH_INDEX and loop not in _tasks:
        _tasks[loop] = loop.create_task(_run(), name="search-index")


async def stop() -> None:
    """End the index process. The next one continues where it stopped."""
    task = _tasks.pop(asyncio.get_running_loop(), None)
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _run() -> None:
    """Start the process, and start it again whenever it ends."""
    while True:
        process = _start()
        try:
            await asyncio.to_thread(process.wait)
        finally:
            await _end(process)
        _log.warning("index_process_replaced exit_code=%s", process.returncode)
        await asyncio.sleep(_RETRY_S)


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "viewer.search.index_process"],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


async def _end(process: subprocess.Popen[bytes]) -> None:
    """Let the process end after its batch, or kill it. An unfinished batch is rolled back."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.to_thread(process.wait, _STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
