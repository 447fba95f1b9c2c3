"""Answer clients that close their sending side after the request, as `nc -N` and some proxies do.

Twisted takes the end of what it reads for the end of the connection. The events were stored, and the sender got no
answer. Only requests to the write endpoints are answered: they are short, and a page whose reader has gone is stopped.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any


def install(protocol_class: Any, endpoints: Collection[str]) -> None:
    """Let Twisted's HTTP protocol answer requests to `endpoints` after the end of what it reads."""
    from twisted.internet.interfaces import IHalfCloseableProtocol  # noqa: PLC0415 - only web processes have Twisted
    from zope.interface import classImplements  # type: ignore[import-untyped]  # noqa: PLC0415

    def read_connection_lost(self: Any) -> None:
        channel = self._channel
        if _is_handling(channel, endpoints):
            # The connection ends with the answer.
            channel.persistent = False
        else:
            channel.loseConnection()

    protocol_class.readConnectionLost = read_connection_lost
    protocol_class.writeConnectionLost = lambda self: None
    classImplements(protocol_class, IHalfCloseableProtocol)


def _is_handling(channel: Any, endpoints: Collection[str]) -> bool:
    """Return True if all of a request to one of the endpoints has arrived and is not answered yet."""
    if not getattr(channel, "requests", None) or not getattr(channel, "_handlingRequest", False):
        return False
    path: bytes = getattr(channel.requests[0], "path", None) or b""
    return path.decode("latin-1").rstrip("/") in endpoints
