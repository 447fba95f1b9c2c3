"""Options of TCP connections that no byte shows."""

from __future__ import annotations

import asyncio
import socket
import struct

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_LOOPBACK = {"127.0.0.1", "::1"}
_POLL_S = 0.005
_MAX_WAIT_S = 5.0


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Let the kernel probe a connection that is idle for long, as the providers' own clients do."""
    connection = transport.get_extra_info("socket")
    peer = transport.get_extra_info("peername")
    if connection is None or not peer or peer[0] in _LOOPBACK:
        return  # The kernel knows when a program of this machine has gone.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 60), ("TCP_KEEPCNT", 5)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def reset(transport: asyncio.Transport) -> None:
    """Close a connection with a reset."""
    connection = transport.get_extra_info("socket")
    if connection is not None and not transport.is_closing():
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()


def reset_when_sent(transport: asyncio.Transport, waited_s: float = 0.0) -> None:
    """Reset a connection after the bytes that came before the reset. A reset discards what was not sent."""
    if waited_s < _MAX_WAIT_S and not transport.is_closing() and _unsent_bytes(transport):
        loop = asyncio.get_running_loop()
        loop.call_later(_POLL_S, reset_when_sent, transport, waited_s + _POLL_S)
    else:
        reset(transport)


def _unsent_bytes(transport: asyncio.Transport) -> int:
    waiting = transport.get_write_buffer_size()
    connection = transport.get_extra_info("socket")
    if waiting or connection is None:
        return waiting
    try:
        import fcntl
        import termios

        return int.from_bytes(fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, b"\0" * 4), "little")
    except (ImportError, OSError, ValueError):
        return 0
