"""Limits of what waits for slow websocket clients.

A frame waits in the memory of this process until its client reads. A socket therefore sends a frame only while few
bytes wait, and reads what it missed from the database later. If all sockets of the process together reach their limit,
those with the most waiting bytes are cut off. Every client reconnects with its last seq and misses nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from time import monotonic
from typing import Any, Protocol

from ingest import metrics

# The name in `scope["extensions"]` under which the web process passes the transport of a websocket.
EXTENSION = "ariadne.transport"
# A socket with fewer waiting bytes may send a frame of any size, so that every frame can be sent at some time.
LOW_BYTES = 64 * 1024
SOCKET_BYTES = 1024 * 1024
PROCESS_BYTES = 64 * 1024 * 1024
# Browsers acknowledge frames. This limits the frames in flight to a slow one, instead of the kernel's buffer.
WINDOW_FRAMES = 32
# A client that neither reads nor acknowledges for this long is disconnected.
STALL_S = 20.0


class Stalled(Exception):
    """The client has not read for `STALL_S`."""


class Transport(Protocol):
    """The connection of one websocket."""

    @property
    def waiting_bytes(self) -> int:
        """Bytes in the memory of this process that the client has not read."""

    async def wait_until_read(self) -> None:
        """Return when no bytes wait. More than `LOW_BYTES` must be waiting."""

    def abort(self) -> None:
        """Close the connection now, and discard the bytes that wait."""


class NoTransport:
    """The connection of a socket that another server than ours runs. It counts nothing."""

    waiting_bytes = 0

    async def wait_until_read(self) -> None:
        return None

    def abort(self) -> None:
        return None


class Outgoing:
    """The connections of all open websockets of this process."""

    def __init__(self) -> None:
        self._transports: set[Transport] = set()
        # At least the bytes that wait. Counting exactly takes a step per socket, and is rarely necessary.
        self._most_bytes = 0

    def add(self, transport: Transport) -> None:
        self._transports.add(transport)

    def remove(self, transport: Transport) -> None:
        self._transports.discard(transport)

    @property
    def waiting_bytes(self) -> int:
        return sum(transport.waiting_bytes for transport in self._transports)

    def reserve(self, size: int) -> None:
        """Make room for a frame that is sent now. The sockets with the most waiting bytes give way."""
        self._most_bytes += size
        if self._most_bytes <= PROCESS_BYTES:
            return
        waiting = {transport: transport.waiting_bytes for transport in self._transports}
        total = sum(waiting.values())
        for transport, count in sorted(waiting.items(), key=lambda item: -item[1]):
            if total + size <= PROCESS_BYTES or not count:
                break
            transport.abort()
            metrics.live_closed.labels("process_full").inc()
            total -= count
        self._most_bytes = total + size


outgoing = Outgoing()
metrics.live_waiting_bytes.set_function(lambda: outgoing.waiting_bytes)


class ClientFlow:
    """Count what one client has not read: frames that it did not acknowledge, and bytes that wait in this process."""

    def __init__(self, scope: Mapping[str, Any], *, acknowledges: bool) -> None:
        self._transport: Transport = scope.get("extensions", {}).get(EXTENSION) or NoTransport()
        self._acknowledges = acknowledges
        self._in_flight = 0
        self._acknowledged = asyncio.Event()
        self._read_at = monotonic()

    def open(self) -> None:
        outgoing.add(self._transport)

    def close(self) -> None:
        outgoing.remove(self._transport)

    @property
    def is_slow(self) -> bool:
        """True if more waits than a client that reads would leave."""
        return self._transport.waiting_bytes > LOW_BYTES

    def abort(self) -> None:
        self._transport.abort()

    def has_room(self, size: int) -> bool:
        return self._is_window_open and self._fits(size)

    def send(self, size: int) -> None:
        """Count a frame that is sent now. There must be room for it."""
        outgoing.reserve(size)
        self._in_flight += self._acknowledges
        self._read_at = monotonic()

    def acknowledge(self) -> None:
        self._in_flight = max(0, self._in_flight - 1)
        self._acknowledged.set()

    async def wait_for_room(self, size: int, timeout_s: float) -> None:
        """Wait until the client reads, at most `timeout_s`. Raise Stalled if it has not read for a long time."""
        before = self._unread
        self._acknowledged.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await (self._acknowledged.wait() if self._fits(size) else self._transport.wait_until_read())
        if self._unread < before:
            self._read_at = monotonic()
        elif monotonic() - self._read_at >= STALL_S:
            raise Stalled

    @property
    def _unread(self) -> int:
        # Nothing is sent during a wait, so both only shrink, and a change of either is progress.
        return self._in_flight + self._transport.waiting_bytes

    @property
    def _is_window_open(self) -> bool:
        return self._in_flight < WINDOW_FRAMES

    def _fits(self, size: int) -> bool:
        waiting = self._transport.waiting_bytes
        return waiting <= LOW_BYTES or waiting + size <= SOCKET_BYTES
