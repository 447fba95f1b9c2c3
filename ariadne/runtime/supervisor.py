"""Supervise the web processes of one machine: start them, replace dead ones, and restart them one by one on request.

The supervisor holds the listening socket and all web processes accept from it, so no connection is refused during a
restart. SIGUSR2 triggers a rolling restart: each new process serves before the old one is asked to stop.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Self

from ariadne.paths import ROOT
from ariadne.runtime.launcher import die_with_parent

READY_TIMEOUT_S = 60.0
# Longer than a web process needs to finish its open requests.
STOP_TIMEOUT_S = 20.0
# More restarts than this within a minute mean that the web process cannot run.
MAX_RESTARTS_PER_MINUTE = 5
_WATCH_INTERVAL_S = 0.2

Child = subprocess.Popen[bytes]


class WebProcessError(RuntimeError):
    """A web process did not start, or web processes keep exiting."""


def spawn(arguments: list[str], *, pass_fds: tuple[int, ...] = (), environment: dict[str, str] | None = None) -> Child:
    """Start a Python process that dies with this one."""
    return subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
        pass_fds=pass_fds,
        # Ctrl-C must reach only the supervisor, which stops its children in order.
        start_new_session=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - the supervisor has no threads
    )


def stop(processes: list[Child]) -> None:
    """Terminate all processes, wait for them together, and kill those that do not exit in time."""
    for child in processes:
        if child.poll() is None:
            child.terminate()
    deadline = time.monotonic() + STOP_TIMEOUT_S
    for child in processes:
        try:
            child.wait(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


@contextlib.contextmanager
def children() -> Iterator[list[Child]]:
    """Yield a list whose processes are stopped at the end."""
    processes: list[Child] = []
    try:
        yield processes
    finally:
        stop(processes)


class WebProcesses:
    """Web processes that share one listening socket: `with WebProcesses(listener, 4) as web: web.watch()`."""

    def __init__(self, listener: socket.socket, count: int, *, log_line: Callable[[str], None] = print) -> None:
        self._listener = listener
        self._count = count
        self._log_line = log_line
        self._running: list[Child] = []
        self._restarts: list[float] = []
        self._is_restart_requested = False

    def __enter__(self) -> Self:
        signal.signal(signal.SIGUSR2, self._request_restart)
        try:
            for child, ready in [self._start() for _ in range(self._count)]:
                self._wait_ready(child, ready)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        stop(self._running)

    def check(self) -> None:
        """Raise if a web process has exited."""
        if exit_codes := [child.returncode for child in self._running if child.poll() is not None]:
            raise WebProcessError(f"The web process exited with {exit_codes[0]}. Its error message is above.")

    def watch(self, on_tick: Callable[[], None] = lambda: None) -> None:
        """Replace dead processes and handle restart requests until an exception is raised.

        `on_tick` is called on every round, for other children of the supervisor.
        """
        while True:
            time.sleep(_WATCH_INTERVAL_S)
            on_tick()
            self._replace_dead()
            if self._is_restart_requested:
                self._is_restart_requested = False
                self._restart_all()

    def _request_restart(self, _number: int, _frame: FrameType | None) -> None:
        self._is_restart_requested = True

    def _start(self) -> tuple[Child, int]:
        """Start a process. Return it with the read end of the pipe on which it reports that it is ready."""
        ready, ready_write_end = os.pipe()
        handle = self._listener.fileno()
        arguments = ["-m", "ariadne.runtime.web_process", "--fd", str(handle), "--ready-fd", str(ready_write_end)]
        try:
            child = spawn(arguments, pass_fds=(handle, ready_write_end))
        finally:
            os.close(ready_write_end)
        self._running.append(child)
        return child, ready

    def _wait_ready(self, child: Child, ready: int) -> None:
        try:
            readable, _, _ = select.select([ready], [], [], READY_TIMEOUT_S)
            if not readable:
                raise WebProcessError(f"The web process was not ready within {READY_TIMEOUT_S:.0f} seconds.")
            if not os.read(ready, 5):
                raise WebProcessError(f"The web process exited with {child.wait()}. Its error message is above.")
        finally:
            os.close(ready)

    def _replace_dead(self) -> None:
        for child in [child for child in self._running if child.poll() is not None]:
            now = time.monotonic()
            self._restarts = [moment for moment in self._restarts if moment > now - 60] + [now]
            if len(self._restarts) > MAX_RESTARTS_PER_MINUTE:
                raise WebProcessError(f"The web process keeps exiting. The last exit code was {child.returncode}.")
            self._log_line(f"A web process exited with {child.returncode}. Starting a new one.")
            self._running.remove(child)
            _, ready = self._start()
            os.close(ready)

    def _restart_all(self) -> None:
        self._log_line("Restarting the web processes …")
        for old in list(self._running):
            new, ready = self._start()
            try:
                self._wait_ready(new, ready)
            except WebProcessError as error:
                # If the new version does not start, the old processes keep serving.
                self._log_line(f"{error} The old web processes keep running.")
                stop([new])
                self._running.remove(new)
                return
            stop([old])
            self._running.remove(old)
        self._log_line("Restarted.")
