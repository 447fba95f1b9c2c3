"""Ports for servers that a test starts later, or stops and starts again."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserve_port(port: int = 0) -> Iterator[int]:
    """Yield a free port on which connections are refused until a server listens. Port 0 chooses one.

    The port stays bound, because the kernel gives a free one to the next process that asks, or to a client that
    connects to it. On Linux a server may listen on a bound port if both sockets set SO_REUSEADDR, as servers do.
    """
    with socket.socket() as reservation:
        reservation.bind(("127.0.0.1", port))
        # After the bind, which therefore fails if another test has reserved the port.
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        number: int = reservation.getsockname()[1]
        if sys.platform != "linux":
            reservation.close()
        yield number
