"""File descriptors of a web process: raise their limit, and answer 503 before they run out.

A new socket has the lowest free number, so its number says how many are in use. The last ones are for connections to
the database, and for sockets whose requests are answered with 503. If there are none left at all, connections wait in
the kernel's queue. Twisted would accept and reset them.
"""

from __future__ import annotations

import os
import resource
from typing import Any

_RESERVED = 32
_RETRY_S = 0.05
_WANTED = 65_536


def raise_limit() -> None:
    """Use as many descriptors as this user may, up to a number that no server needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(hard, _WANTED)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def are_short(socket_number: int) -> bool:
    """Return True if a socket with this number is one of the last that the process can open."""
    return socket_number >= resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _RESERVED


def accept_when_free(port: Any) -> None:
    """Let a listening port of Twisted accept one connection per turn of the event loop, if there is a descriptor.

    One per turn, so that processes share the load. Twisted accepts up to a hundred.
    """
    accept = port.doRead

    def accept_one() -> None:
        try:
            os.close(os.dup(port.fileno()))
        except OSError:
            port.stopReading()
            port.reactor.callLater(_RETRY_S, _resume, port)
            return
        port.numberAccepts = 1
        accept()

    port.doRead = accept_one


def _resume(port: Any) -> None:
    if port.connected and not port.disconnecting:
        port.startReading()
