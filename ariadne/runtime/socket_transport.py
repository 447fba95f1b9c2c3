"""The connection of a websocket, with the bytes that its client has not read yet.

Twisted keeps unread bytes in memory without a limit, and daphne does not wait for them. The consumers of
`viewer.live` do, with this view of the connection.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

# Otherwise the kernel keeps up to several megabytes for a client that does not read.
_KERNEL_BYTES = 256 * 1024


class SocketTransport:
    """Counts the waiting bytes of a Twisted transport. As its producer, it learns when the transport is empty."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._is_read = asyncio.Event()
        self._is_read.set()
        transport.getHandle().setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BYTES)
        # The HTTP channel was the producer until the upgrade. It has nothing more to produce.
        transport.unregisterProducer()
        transport.registerProducer(self, True)

    @property
    def waiting_bytes(self) -> int:
        transport = self._transport
        if not transport.connected:
            return 0
        count: int = len(transport.dataBuffer) - transport.offset + transport._tempDataLen
        return count

    async def wait_until_read(self) -> None:
        await self._is_read.wait()

    def abort(self) -> None:
        self._transport.abortConnection()
        self._discard()

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Twisted calls this when more than 64 kB wait."""
        self._is_read.clear()

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Twisted calls this when all bytes have been read."""
        self._is_read.set()

    def stopProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Twisted calls this when the connection is lost."""
        self._discard()

    def _discard(self) -> None:
        # Connections are parts of reference cycles, which are collected much later.
        transport = self._transport
        transport.dataBuffer, transport.offset = b"", 0
        transport._tempDataBuffer, transport._tempDataLen = [], 0
        self._is_read.set()
