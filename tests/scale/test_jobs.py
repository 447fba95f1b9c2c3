"""Jobs run from the start of a process to its end, whether or not it gets a request."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from conftest import ServerFactory
from live_server import Server
from prometheus_client import REGISTRY
from scale.redis_server import Redis
from wait import wait_until

from ariadne.runtime import jobs
from ariadne.runtime.jobs import Jobs, every

PLANTED = "planted-secret"


async def until(condition: Callable[[], object]) -> None:
    assert await asyncio.to_thread(wait_until, lambda: bool(condition()))


def failures(job: str) -> float:
    return REGISTRY.get_sample_value("ariadne_job_failures_total", {"job": job}) or 0.0


async def test_a_job_repeats_until_the_stop_and_then_does_the_rest() -> None:
    """An interval of 0 turns a job off. Coroutine functions run on the event loop, others on a thread."""
    runs: list[str] = []

    async def count() -> None:
        assert threading.current_thread() is threading.main_thread()
        runs.append("loop")

    def work() -> None:
        assert threading.current_thread() is not threading.main_thread()
        runs.append("thread")

    async with Jobs(
        every(0.001, "loop", count),
        every(0.001, "thread", work, at_stop=lambda: runs.append("left")),
        every(0, "off", lambda: runs.append("off")),
        every(0.001, "later", lambda: runs.append("later"), first_after_s=3600),
    ):
        await until(lambda: runs.count("loop") > 2 and runs.count("thread") > 2)
    assert runs.count("left") == 1 and runs.index("left") >= len(runs) - 2
    assert not {"off", "later"} & set(runs)


async def test_a_job_that_raises_is_logged_once_counted_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """The line has no text of the error, which may quote a conversation. Other jobs are not affected."""
    is_broken = True
    runs: list[str] = []

    def fail() -> None:
        if is_broken:
            raise ValueError(PLANTED)
        runs.append("works")

    def write() -> None:
        raise OSError(28, "No space left on device", PLANTED)

    before = failures("broken")
    with caplog.at_level(logging.WARNING, "ariadne.jobs"):
        async with Jobs(
            every(0.001, "broken", fail),
            every(3600, "disk", write),
            every(0.001, "other", lambda: runs.append("other")),
        ):
            await until(lambda: failures("broken") >= before + 3 and runs.count("other") > 2)
            is_broken = False
            await until(lambda: runs.count("works") > 2)
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split()[:3] for line in lines if "broken" in line] == [
        ["job_failed", "job=broken", "error=ValueError"],
        ["job_works", "job=broken"],
    ]
    assert any(line.startswith("job_failed job=disk error=OSError reason='No space left on device'") for line in lines)
    assert PLANTED not in caplog.text


async def test_a_stop_waits_for_a_run_in_progress() -> None:
    """The rest comes after it."""
    began, may_end = threading.Event(), threading.Event()
    order: list[str] = []

    def work() -> None:
        began.set()
        assert may_end.wait(60)
        order.append("run")

    async with Jobs(every(3600, "slow", work, at_stop=lambda: order.append("left"))):
        await until(began.is_set)
        asyncio.get_running_loop().call_soon(may_end.set)
    assert order == ["run", "left"]


async def test_a_stop_does_not_wait_forever(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A run that does not end is named, and the others end as usual."""
    monkeypatch.setattr(jobs, "STOP_TIMEOUT_S", 0.05)
    began, may_end = threading.Event(), threading.Event()

    def hang() -> None:
        began.set()
        may_end.wait(60)

    try:
        async with Jobs(every(3600, "hanging", hang), every(0.001, "other", lambda: None)):
            await until(began.is_set)
    finally:
        may_end.set()
    assert [record.getMessage() for record in caplog.records] == ["job_unfinished job=hanging"]


def index_processes(server: Server) -> list[psutil.Process]:
    return [child for child in children(server) if "viewer.search.index_process" in command(child)]


def web_processes(server: Server) -> list[psutil.Process]:
    return [child for child in children(server) if "ariadne.runtime.web_process" in command(child)]


def children(server: Server) -> list[psutil.Process]:
    return psutil.Process(server.process.pid).children(recursive=True)


def command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has just ended
        return []


def anchors(folder: Path) -> list[int]:
    file = folder / "anchors.jsonl"
    return [json.loads(line)["number"] for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.req("A-ARC-2")
def test_two_processes_run_their_jobs_without_a_request_and_after_a_restart(start_server: ServerFactory) -> None:
    """The start asks one process whether it is ready, and nothing else is sent. One of both writes the first anchor."""
    redis = Redis()
    redis.start()
    try:
        server = start_server(PROCESSES="2", REDIS_URL=redis.url)
        assert wait_until(lambda: len(index_processes(server)) == 2)
        assert wait_until(lambda: anchors(server.data_dir) == [1])
        victim = web_processes(server)[0]
        (orphan,) = [child for child in index_processes(server) if child.ppid() == victim.pid]
        victim.kill()
        assert wait_until(lambda: not orphan.is_running() and len(index_processes(server)) == 2)
        before = {process.pid for process in index_processes(server)}
        server.process.send_signal(signal.SIGUSR2)
        assert wait_until(lambda: "Restarted." in server.log)
        assert wait_until(lambda: len(index_processes(server)) == 2)
        assert not before & {process.pid for process in index_processes(server)}
        last = index_processes(server)
        assert server.stop() == 0
        assert not any(process.is_running() for process in last)
        assert not {"job_failed", "job_unfinished", "Traceback"} & set(server.log.split())
    finally:
        redis.kill()
