"""The web processes of one machine: started together, replaced when they die, renewed one by one when asked.

All of them take connections from one listening socket that the supervisor holds, so at no moment is a connection
refused. SIGUSR2 to the supervisor renews them: each successor serves before its predecessor is asked to stop.
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
# Longer than a web process takes to finish the requests it has.
STOP_TIMEOUT_S = 20.0
# A web process that dies this often within a minute is broken, not unlucky.
MAX_RESTARTS_A_MINUTE = 5
_WATCH_S = 0.2

Child = subprocess.Popen[bytes]


class Broken(RuntimeError):
    """Web processes do not start, or keep ending."""


def spawn(arguments: list[str], *, pass_fds: tuple[int, ...] = (), environment: dict[str, str] | None = None) -> Child:
    """Our interpreter with `arguments`; it ends when we do."""
    return subprocess.Popen(  # noqa: S603 - our own interpreter
        [sys.executable, *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
        pass_fds=pass_fds,
        # Ctrl-C reaches the supervisor only, which stops things in order.
        start_new_session=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - the supervisor has no threads
    )


def stop(processes: list[Child]) -> None:
    """Ask all to stop, wait for them together, and kill what does not."""
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
    """A list whose processes are stopped at the end."""
    started: list[Child] = []
    try:
        yield started
    finally:
        stop(started)


class WebProcesses:
    """`with WebProcesses(listener, 4) as web: web.watch()`."""

    def __init__(self, listener: socket.socket, count: int, *, say: Callable[[str], None] = print) -> None:
        self._listener = listener
        self._count = count
        self._say = say
        self._running: list[Child] = []
        self._restarts: list[float] = []
        self._is_renewal_asked = False

    def __enter__(self) -> Self:
        signal.signal(signal.SIGUSR2, self._ask_renewal)
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
        """Raise if one has ended."""
        if ended := [child.returncode for child in self._running if child.poll() is not None]:
            raise Broken(f"the web process ended with {ended[0]}; its message is above")

    def watch(self, beside: Callable[[], None] = lambda: None) -> None:
        """Replace what dies and renew when asked, and look after what stands beside, until an exception ends it."""
        while True:
            time.sleep(_WATCH_S)
            beside()
            self._replace_dead()
            if self._is_renewal_asked:
                self._is_renewal_asked = False
                self._renew()

    def _ask_renewal(self, _number: int, _frame: FrameType | None) -> None:
        self._is_renewal_asked = True

    def _start(self) -> tuple[Child, int]:
        """A new process, and the descriptor on which it will say that it serves."""
        ready, told = os.pipe()
        handle = self._listener.fileno()
        arguments = ["-m", "ariadne.runtime.web_process", "--fd", str(handle), "--ready-fd", str(told)]
        try:
            child = spawn(arguments, pass_fds=(handle, told))
        finally:
            os.close(told)
        self._running.append(child)
        return child, ready

    def _wait_ready(self, child: Child, ready: int) -> None:
        try:
            said, _, _ = select.select([ready], [], [], READY_TIMEOUT_S)
            if not said:
                raise Broken(f"the web process did not become ready within {READY_TIMEOUT_S:.0f} s")
            if not os.read(ready, 5):
                raise Broken(f"the web process ended with {child.wait()}; its message is above")
        finally:
            os.close(ready)

    def _replace_dead(self) -> None:
        for child in [child for child in self._running if child.poll() is not None]:
            now = time.monotonic()
            self._restarts = [moment for moment in self._restarts if moment > now - 60] + [now]
            if len(self._restarts) > MAX_RESTARTS_A_MINUTE:
                raise Broken(f"the web process keeps ending (last with {child.returncode})")
            self._say(f"A web process ended with {child.returncode}; starting another.")
            self._running.remove(child)
            _, ready = self._start()
            os.close(ready)

    def _renew(self) -> None:
        self._say("Renewing the web processes …")
        for old in list(self._running):
            new, ready = self._start()
            try:
                self._wait_ready(new, ready)
            except Broken as error:
                # A broken new version must not take the working old one with it.
                self._say(f"{error}. The web processes that ran go on.")
                stop([new])
                self._running.remove(new)
                return
            stop([old])
            self._running.remove(old)
        self._say("Renewed.")
