"""Jobs that a process repeats from its start to its end: `async with Jobs(every(60, "anchors", anchor), …)`.

Several processes have the same jobs. A job that must run in one of them at a time takes a lock in the database.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Thread
from typing import Any, Self

from django.db import connections

from ingest import metrics
from ingest.errors import describe

# With the time in which open requests are answered, shorter than the supervisor's stop timeout.
STOP_TIMEOUT_S = 4.0
_log = logging.getLogger("ariadne.jobs")


@dataclass(frozen=True, slots=True)
class Job:
    """A function and its times. A plain function runs on a thread, a coroutine function on the event loop."""

    name: str
    run: Callable[[], Any]
    interval_s: float
    first_after_s: float
    at_stop: Callable[[], Any] | None


def every(
    interval_s: float,
    name: str,
    run: Callable[[], Any],
    *,
    first_after_s: float = 0,
    at_stop: Callable[[], Any] | None = None,
) -> Job:
    """Return a job that waits `interval_s` seconds after each run. 0 turns it off."""
    return Job(name, run, interval_s, first_after_s, at_stop)


class Jobs:
    """Repeat jobs, each on its own, until the end of the `async with` block."""

    def __init__(self, *jobs: Job) -> None:
        self._jobs = [job for job in jobs if job.interval_s > 0]
        self._stopping = asyncio.Event()
        self._tasks: Sequence[asyncio.Task[None]] = ()

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._repeat(job), name=job.name) for job in self._jobs]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Let runs in progress end, and run what is left to do at the stop. What takes too long is abandoned."""
        self._stopping.set()
        if not self._tasks:
            return
        _done, late = await asyncio.wait(self._tasks, timeout=STOP_TIMEOUT_S)
        for task in late:
            _log.warning("job_unfinished job=%s", task.get_name())
            task.cancel()

    async def _repeat(self, job: Job) -> None:
        failure = ""
        delay_s = job.first_after_s
        while not await self._stops_within(delay_s):
            failure = await _try(job.name, job.run, failure)
            delay_s = job.interval_s
        if job.at_stop is not None:
            await _try(job.name, job.at_stop, failure)

    async def _stops_within(self, delay_s: float) -> bool:
        try:
            async with asyncio.timeout(delay_s):
                return await self._stopping.wait()
        except TimeoutError:
            return False


async def _try(name: str, run: Callable[[], Any], last_failure: str) -> str:
    """Run a job once and return why it failed, or nothing. The same failure is logged once, until the job works."""
    try:
        await (run() if inspect.iscoroutinefunction(run) else _run_on_thread(run))
    except Exception as error:  # the job goes on after any failure of the database or the disk
        metrics.job_failures.labels(name).inc()
        failure = describe(error)
        if failure != last_failure:
            _log.warning("job_failed job=%s %s", name, failure)
        return failure
    if last_failure:
        _log.warning("job_works job=%s", name)
    return ""


async def _run_on_thread(run: Callable[[], Any]) -> None:
    """Run a function on a thread that does not keep the process from ending, unlike those of an executor."""
    result = Future[None]()
    result.set_running_or_notify_cancel()

    def work() -> None:
        try:
            try:
                run()
            finally:
                connections.close_all()
        except Exception as error:
            result.set_exception(error)
        else:
            result.set_result(None)

    Thread(target=work, daemon=True).start()
    await asyncio.wrap_future(result)
