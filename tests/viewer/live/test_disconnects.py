"""Websockets that disappear without a close frame leave nothing behind."""

from __future__ import annotations

import asyncio
import socket
import struct
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from live_server import Server
from reader import client_of
from wait import wait_until

from ingest import metrics
from viewer.live import consumers, hub
from viewer.live.consumers import SessionListConsumer

SOCKETS = 200


def open_sockets(server: Server) -> float:
    lines = httpx.get(f"{server.url}/metrics").text.splitlines()
    return float(next(line for line in lines if line.startswith("ariadne_live_sockets ")).rsplit(" ", 1)[1])


async def connect_and_reset(server: Server, cookie: str, *, reads: bool) -> None:
    """Open a websocket and reset the TCP connection, before or after the server's response."""
    address = urlsplit(server.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    request = (
        f"GET /ws/sessions/ HTTP/1.1\r\nHost: {address.netloc}\r\nOrigin: {server.url}\r\n"
        f"Cookie: sessionid={cookie}\r\n"
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    writer.write(request.encode())
    if reads:
        await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
    connection = writer.get_extra_info("socket")
    # With a linger time of 0, closing sends a reset instead of an orderly end.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def test_a_burst_of_abrupt_disconnects_leaves_no_sockets(server: Server) -> None:
    with client_of(server, "developer") as client:
        cookie = client.cookies["sessionid"]
    before = open_sockets(server)
    for reads in (True, False):
        await asyncio.gather(*(connect_and_reset(server, cookie, reads=reads) for _ in range(SOCKETS // 2)))
    assert wait_until(lambda: open_sockets(server) <= before)


@pytest.mark.parametrize("moment", ["grant", "subscribe", "follow"])
async def test_a_consumer_that_is_canceled_at_any_time_is_not_counted(
    moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Daphne cancels a consumer that does not finish in time after a disconnect, without a disconnect message."""
    reached = asyncio.Event()

    async def block(*_arguments: Any, **_options: Any) -> Any:
        reached.set()
        await asyncio.Event().wait()

    async def grant(_scope: Any) -> Any:
        return SimpleNamespace(user_id=1, projects=lambda _right: {1}, may=lambda *_: True)

    async def read(function: Any, *_arguments: Any, **_options: Any) -> Any:
        return 0

    monkeypatch.setattr(consumers.identity, "socket_grant", block if moment == "grant" else grant)
    monkeypatch.setattr(consumers.hub, "read", block if moment == "subscribe" else read)
    if moment == "follow":
        monkeypatch.setattr(SessionListConsumer, "next_change", block)
    before = metrics.live_sockets._value.get()
    incoming: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    await incoming.put({"type": "websocket.connect"})
    scope = {"type": "websocket", "query_string": b"", "path": "/ws/sessions/"}

    async def send(_message: Any) -> None:
        return None

    consumer = asyncio.ensure_future(SessionListConsumer()(scope, incoming.get, send))
    await asyncio.wait_for(reached.wait(), 10)
    assert metrics.live_sockets._value.get() == before + 1
    consumer.cancel()
    await asyncio.gather(consumer, return_exceptions=True)
    assert metrics.live_sockets._value.get() == before
    assert hub.hub().is_idle
