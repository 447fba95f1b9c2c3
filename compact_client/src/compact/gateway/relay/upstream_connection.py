"""One connection to an upstream, for one connection of an agent.

Connections are not shared and not pooled. The upstream sees what it would see from the agent itself, and a connection
that the upstream closes while it is idle is closed for the agent too, instead of failing the next request.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Protocol, cast

from compact.gateway.relay.dial import Dialer
from compact.gateway.relay.sockets import keep_alive, reset
from compact.gateway.upstreams import Upstream

_MAX_UNSENT_BYTES = 1 << 16


class Owner(Protocol):
    """The connection of the agent."""

    def on_upstream_data(self, data: bytes) -> None:
        """Forward bytes of the upstream."""

    def on_upstream_eof(self) -> None:
        """Forward the end of the upstream's bytes."""

    def on_upstream_lost(self, error: Exception | None) -> None:
        """Close, because the upstream has closed or reset the connection, or could not be reached."""

    def on_upstream_pressure(self) -> None:
        """Stop or continue reading, depending on `is_full`."""


class UpstreamConnection(asyncio.Protocol):
    """Writes bytes to the upstream, from before the connection exists."""

    def __init__(self, owner: Owner, upstream: Upstream, dialer: Dialer) -> None:
        self._owner: Owner | None = owner
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._is_eof_due = False
        self._is_paused = False
        self.upstream = upstream
        self.is_full = False
        """True while the upstream does not take more bytes."""
        self.was_connected = False
        self._task = asyncio.get_running_loop().create_task(self._dial(dialer))

    async def _dial(self, dialer: Dialer) -> None:
        try:
            await dialer.dial(self.upstream, lambda: self)
        except (OSError, ssl.SSLError, ValueError) as error:
            if self._owner is not None:
                self._owner.on_upstream_lost(error)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send what has waited."""
        self._transport = cast(asyncio.Transport, transport)
        if self._owner is None:
            self._transport.abort()
            return
        self.was_connected = True
        keep_alive(self._transport)
        if self._is_paused:
            self._transport.pause_reading()
        unsent, self._unsent = self._unsent, []
        self._unsent_bytes = 0
        self._set_full(False)
        if unsent:
            self._transport.write(unsent[0] if len(unsent) == 1 else b"".join(unsent))
        if self._is_eof_due:
            self.write_eof()

    def data_received(self, data: bytes) -> None:
        """Forward bytes."""
        if self._owner is not None:
            self._owner.on_upstream_data(data)

    def eof_received(self) -> bool:
        """Forward the end. The other direction stays open, except over TLS, which has no half-closed connections."""
        if self._owner is not None:
            self._owner.on_upstream_eof()
        return not self.upstream.is_tls

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass on a reset as a reset."""
        if self._owner is not None:
            self._owner.on_upstream_lost(exc)

    def pause_writing(self) -> None:
        """Stop reading from the agent."""
        self._set_full(True)

    def resume_writing(self) -> None:
        """Continue reading from the agent."""
        self._set_full(False)

    def write(self, data: bytes) -> None:
        """Send bytes, or keep them until the connection exists."""
        if self._transport is not None:
            self._transport.write(data)
            return
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if self._unsent_bytes > _MAX_UNSENT_BYTES:
            self._set_full(True)

    def write_eof(self) -> None:
        """End the agent's side. Over TLS that closes the connection, as it would without a gateway."""
        if self._transport is None:
            self._is_eof_due = True
        elif self._transport.can_write_eof():
            if not self._transport.is_closing():
                self._transport.write_eof()
        else:
            self._transport.close()

    def pause_reading(self) -> None:
        """Stop reading from the upstream."""
        if not self._is_paused:
            self._is_paused = True
            if self._transport is not None and not self._transport.is_closing():
                self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Continue reading from the upstream."""
        if self._is_paused:
            self._is_paused = False
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()

    def close(self) -> None:
        """Close without calling the owner."""
        self._owner = None
        if self._transport is not None:
            self._transport.close()
        else:
            self._task.cancel()

    def reset(self) -> None:
        """Reset without calling the owner."""
        self._owner = None
        if self._transport is not None:
            reset(self._transport)
        else:
            self._task.cancel()

    def _set_full(self, is_full: bool) -> None:
        if self.is_full != is_full:
            self.is_full = is_full
            if self._owner is not None:
                self._owner.on_upstream_pressure()
