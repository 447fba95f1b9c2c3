"""The faults of a soak, in rotation: processes that are killed, paused or restarted, and a read-only database."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterable
from typing import LiteralString

import psutil
import psycopg
from live_server import Server
from scale.redis_server import Redis
from wait import wait_until

from ariadne.runtime.postgres import Postgres

OUTAGE_S = 3.0
# Longer than the supervisor waits for an answer, so that the process is replaced.
WEB_PAUSE_S = 25.0


class Faults:
    """Causes one fault per `next()` and returns its name after the system has recovered."""

    def __init__(self, server: Server, redis: Redis, database: Postgres) -> None:
        self._server, self._redis, self._database = server, redis, database
        self._turn = 0
        self._processes = len(self.web())
        self.caused: list[str] = []

    def next(self) -> str:
        kinds: list[Callable[[], str]] = [self._kill, self._crash_postgres, self._stop_redis, self._restart]
        kinds += [self._pause_redis, self._pause_postgres, self._pause_web, self._make_read_only]
        name = kinds[self._turn % len(kinds)]()
        self._turn += 1
        self.caused.append(name)
        return name

    def web(self) -> list[psutil.Process]:
        """Return the running web processes."""
        processes = []
        for child in psutil.Process(self._server.process.pid).children(recursive=True):
            try:
                if "ariadne.runtime.web_process" in " ".join(child.cmdline()):
                    processes.append(child)
            except psutil.Error:
                continue
        return processes

    def _kill(self) -> str:
        victim = self.web()[0]
        victim.kill()
        assert wait_until(lambda: self._is_replaced(victim))
        return "web process killed"

    def _is_replaced(self, victim: psutil.Process) -> bool:
        running = {child.pid for child in self.web()}
        return len(running) >= self._processes and victim.pid not in running

    def _restart(self) -> str:
        done = self._server.log.count("Restarted.")
        self._server.process.send_signal(signal.SIGUSR2)
        assert wait_until(lambda: self._server.log.count("Restarted.") > done, timeout_s=90)
        return "rolling restart"

    def _stop_redis(self) -> str:
        self._redis.kill()
        time.sleep(OUTAGE_S)
        self._redis.start()
        return "Redis outage"

    def _crash_postgres(self) -> str:
        process = self._database.process
        assert process is not None
        process.send_signal(signal.SIGQUIT)
        process.wait(timeout=30)
        self._database.start()
        return "Postgres crashed"

    def _pause_redis(self) -> str:
        self._redis.pause()
        time.sleep(OUTAGE_S)
        self._redis.kill()
        self._redis.start()
        return "Redis paused"

    def _pause_postgres(self) -> str:
        assert self._database.process is not None
        postmaster = psutil.Process(self._database.process.pid)
        _pause([postmaster, *postmaster.children(recursive=True)], OUTAGE_S)
        return "Postgres paused"

    def _pause_web(self) -> str:
        victim = self.web()[0]
        _pause([victim], WEB_PAUSE_S)
        assert wait_until(lambda: self._is_replaced(victim))
        return "web process paused"

    def _make_read_only(self) -> str:
        self._set_read_only("ALTER DATABASE ariadne SET default_transaction_read_only = on")
        time.sleep(OUTAGE_S)
        self._set_read_only("ALTER DATABASE ariadne RESET default_transaction_read_only")
        return "Postgres read-only"

    def _set_read_only(self, statement: LiteralString) -> None:
        """Change the default of all connections of the server, which have to connect again."""
        with psycopg.connect(self._database.dsn("postgres"), autocommit=True) as connection:
            connection.execute(statement)
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'ariadne'")


def _pause(processes: Iterable[psutil.Process], seconds: float) -> None:
    paused = list(processes)
    for process in paused:
        process.suspend()
    time.sleep(seconds)
    for process in paused:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()
