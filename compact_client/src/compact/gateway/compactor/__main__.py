"""The compactor process: `python -m compact.gateway.compactor` with the relay's pipe as standard input."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

from compact.delivery.stderr import log_problem
from compact.exceptions import CompactError
from compact.gateway import frames
from compact.gateway.compactor.compactor import Compactor
from compact.gateway.compactor.managers import Managers

_READ_BYTES = 1 << 18
_THREADS = 16
_CLOSE_S = 5.0


def main() -> int:
    """Decide about requests until the relay closes the pipe."""
    # The relay decides when the compactor ends. Ctrl-C reaches the whole process group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        managers = Managers.of_settings()
    except CompactError as error:
        log_problem("Ariadne", f"gateway: Nothing is compacted. {error}")
        return 1
    managers.warm_up()
    pool = ThreadPoolExecutor(_THREADS)
    with socket.socket(fileno=os.dup(0)) as pipe:
        lock = threading.Lock()

        def send(data: bytes) -> None:
            with lock, contextlib.suppress(OSError):
                pipe.sendall(data)

        compactor = Compactor(managers, send, pool.submit)
        try:
            _run(pipe, compactor)
        finally:
            managers.close(_CLOSE_S)
    return 0


def _run(pipe: socket.socket, compactor: Compactor) -> None:
    decoder = frames.FrameDecoder()
    while True:
        try:
            data = pipe.recv(_READ_BYTES)
            if not data:
                return
            for frame in decoder.feed(data):
                compactor.feed(frame)
        except (OSError, frames.FrameError):
            return


if __name__ == "__main__":
    # Threads may still wait for a model that writes a summary.
    os._exit(main())
