"""The faults of a soak, in rotation: a killed web process, a Postgres crash, a Redis outage, a rolling restart."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import psutil
from live_server import Server
from scale.redis_server import Redis
from wait import wait_until

from ariadne.runtime.postgres import Postgres

OUTAGE_S = 3.0


class Faults:
    """Causes one fault per `next()` and returns its name after the system has recovered."""

    def __init__(self, server: Server, redis: Redis, database: Postgres) -> None:
        self._server, self._redis, self._database = server, redis, database
        self._turn = 0
        self.caused: list[str] = []

    def next(self) -> str:
        kinds: list[Callable[[], str]] = [self._kill, self._crash_postgres, self._stop_redis, self._restart]
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
        assert wait_until(lambda: len(self.web()) >= 2 and victim.pid not in {child.pid for child in self.web()})
        return "web process killed"

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
