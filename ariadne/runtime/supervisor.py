"""Supervise the web processes of one machine: start them, replace dead ones, and restart them one by one on request.

The supervisor holds the listening socket and all web processes accept from it, so no connection is refused during a
restart. SIGUSR2 triggers a rolling restart: each new process serves before the old one is asked to stop. A process
whose event loop does not answer is replaced too. One line says where it was, and a file has the stacks of its threads.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from ariadne.paths import ROOT
from ariadne.runtime.launcher import die_with_parent
from ariadne.runtime.loop_monitor import DUMP_SIGNAL
from ariadne.runtime.terminal import print_line

READY_TIMEOUT_S = 60.0
# Longer than a web process needs to finish its open requests.
STOP_TIMEOUT_S = 20.0
# More restarts than this within a minute mean that the web process cannot run.
MAX_RESTARTS_PER_MINUTE = 5
APPLICATION = "ariadne.asgi:application"
_WATCH_INTERVAL_S = 0.2
# A round of `watch` takes this long only if the supervisor waited for a process or did not get any CPU time.
_STALL_S = 5.0
# Time to write the stacks before the process is killed.
_DUMP_S = 1.0
_PIPE_BYTES = 4096
# By default, glibc returns memory to the kernel whenever a few hundred kilobytes are free, and asks for it again with
# the next request. A body of 270 kB costs 260 page faults in the process that decodes it. Other C libraries ignore the
# variables.
_ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(4 * 1024 * 1024), "MALLOC_TRIM_THRESHOLD_": str(16 * 1024 * 1024)}

# The main thread gets the signal.
_INNERMOST_FRAME = re.compile(r'Current thread .*\n +File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>\S+)')

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


class _WebProcess:
    """A web process and the pipe on which it reports that it is ready, and then every second that it is alive."""

    def __init__(self, listener: socket.socket, application: str) -> None:
        self._pipe, write_end = os.pipe()
        os.set_blocking(self._pipe, False)
        self._stacks = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        handle, stacks = listener.fileno(), self._stacks.fileno()
        options = ["--fd", str(handle), "--ready-fd", str(write_end), "--stacks-fd", str(stacks)]
        arguments = ["-m", "ariadne.runtime.web_process", application, *options]
        try:
            # Processes that the web process starts inherit it.
            allocator = {name: os.environ.get(name, value) for name, value in _ALLOCATOR.items()}
            self.child = spawn(arguments, pass_fds=(handle, write_end, stacks), environment=allocator)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(write_end)
        # A process that has not reported yet is given the time that it may take to start.
        self.alive_at = time.monotonic() + READY_TIMEOUT_S

    def wait_ready(self) -> None:
        readable, _, _ = select.select([self._pipe], [], [], READY_TIMEOUT_S)
        if not readable:
            raise WebProcessError(f"The web process was not ready within {READY_TIMEOUT_S:.0f} seconds.")
        if not os.read(self._pipe, _PIPE_BYTES):
            raise WebProcessError(f"The web process exited with {self.child.wait()}. Its error message is above.")
        self.alive_at = time.monotonic()

    def read_beats(self, now: float) -> None:
        """Update `alive_at` if the process wrote to the pipe since the last call."""
        with contextlib.suppress(BlockingIOError):
            if os.read(self._pipe, _PIPE_BYTES):
                self.alive_at = now

    def dump_and_kill(self) -> str:
        """Let the process write the stacks of its threads, then kill it. Return them. A paused process has none."""
        self.child.send_signal(DUMP_SIGNAL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.wait(timeout=_DUMP_S)
        self.child.kill()
        self.child.wait()
        self._stacks.seek(0)
        return self._stacks.read().decode(errors="replace")

    def close(self) -> None:
        os.close(self._pipe)
        self._stacks.close()


class WebProcesses:
    """Web processes that share one listening socket: `with WebProcesses(listener, 4) as web: web.watch()`.

    A process whose event loop does not answer for `liveness_timeout_s` seconds is replaced. 0 turns this off.
    """

    def __init__(
        self,
        listener: socket.socket,
        count: int,
        *,
        application: str = APPLICATION,
        liveness_timeout_s: float = 0,
        stacks_file: Path | None = None,
        log_line: Callable[[str], None] = print_line,
    ) -> None:
        self._listener = listener
        self._count = count
        self._application = application
        self._liveness_timeout_s = liveness_timeout_s
        self._stacks_file = stacks_file
        self._log_line = log_line
        self._running: list[_WebProcess] = []
        self._restarts: list[float] = []
        self._is_restart_requested = False
        self._checked_at = time.monotonic()

    def __enter__(self) -> Self:
        signal.signal(signal.SIGUSR2, self._request_restart)
        try:
            for process in [self._start() for _ in range(self._count)]:
                process.wait_ready()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        stop([process.child for process in self._running])
        for process in list(self._running):
            self._forget(process)

    def check(self) -> None:
        """Raise if a web process has exited."""
        exit_codes = [process.child.returncode for process in self._running if process.child.poll() is not None]
        if exit_codes:
            raise WebProcessError(f"The web process exited with {exit_codes[0]}. Its error message is above.")

    def watch(self, on_tick: Callable[[], None] = lambda: None) -> None:
        """Replace dead processes and handle restart requests until an exception is raised.

        `on_tick` is called on every round, for other children of the supervisor.
        """
        while True:
            time.sleep(_WATCH_INTERVAL_S)
            on_tick()
            self._kill_unresponsive()
            self._replace_dead()
            if self._is_restart_requested:
                self._is_restart_requested = False
                self._restart_all()

    def _request_restart(self, _number: int, _frame: FrameType | None) -> None:
        self._is_restart_requested = True

    def _start(self) -> _WebProcess:
        process = _WebProcess(self._listener, self._application)
        self._running.append(process)
        return process

    def _forget(self, process: _WebProcess) -> None:
        self._running.remove(process)
        process.close()

    def _kill_unresponsive(self) -> None:
        now = time.monotonic()
        # If the supervisor itself did not run, neither did its children, for example in a frozen container.
        was_stalled, self._checked_at = now - self._checked_at > _STALL_S, now
        for process in self._running:
            process.read_beats(now)
            if was_stalled:
                process.alive_at = max(process.alive_at, now)
            silent_s = now - process.alive_at
            if 0 < self._liveness_timeout_s < silent_s and process.child.poll() is None:
                stacks = process.dump_and_kill()
                self._log_line(
                    f"Web process {process.child.pid} did not answer for {silent_s:.0f} seconds and is replaced. "
                    f"{self._describe(stacks)}"
                )

    def _describe(self, stacks: str) -> str:
        """Return where a process was, as a sentence, and save all of its stacks."""
        frame = _INNERMOST_FRAME.search(stacks)
        if frame is None:
            return "It was probably paused, because it did not react to a signal."
        where = f"It was in {frame['function']} ({Path(frame['file']).name}:{frame['line']})."
        if self._stacks_file is None:
            return where
        # The newest stacks replace earlier ones, so that the file stays small.
        with contextlib.suppress(OSError):
            self._stacks_file.write_text(stacks)
            return f"{where} All stacks are in {self._stacks_file}."
        return where

    def _replace_dead(self) -> None:
        for process in [process for process in self._running if process.child.poll() is not None]:
            now = time.monotonic()
            self._restarts = [moment for moment in self._restarts if moment > now - 60] + [now]
            exit_code = process.child.returncode
            if len(self._restarts) > MAX_RESTARTS_PER_MINUTE:
                raise WebProcessError(f"The web process keeps exiting. The last exit code was {exit_code}.")
            self._log_line(f"A web process exited with {exit_code}. Starting a new one.")
            self._forget(process)
            self._start()

    def _restart_all(self) -> None:
        self._log_line("Restarting the web processes …")
        for old in list(self._running):
            new = self._start()
            try:
                new.wait_ready()
            except WebProcessError as error:
                # If the new version does not start, the old processes keep serving.
                self._log_line(f"{error} The old web processes keep running.")
                stop([new.child])
                self._forget(new)
                return
            stop([old.child])
            self._forget(old)
        self._log_line("Restarted.")
