"""Real websocket clients that stop reading, and logins that end while a socket is open."""

from __future__ import annotations

import asyncio
import json
import socket
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from agent_session import Session, send
from live_server import Server
from reader import cookie_header
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from viewer.live.consumers import TRY_AGAIN, UNAUTHENTICATED
from viewer.live.flow_control import LOW_BYTES, SOCKET_BYTES
from viewer.live.hub import BATCH_ROWS

CLIENTS = 4
EVENTS = 12 * BATCH_ROWS
FRAME_BYTES = 600 * BATCH_ROWS
TIMEOUT_S = 90


def metric(server: Server, name: str) -> float:
    lines = httpx.get(f"{server.url}/metrics").text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.05)


@asynccontextmanager
async def open_slow(server: Server, path: str, cookies: str) -> AsyncIterator[ClientConnection]:
    """Open a socket with a small buffer, whose client reads one frame and keeps no other."""
    address = urlsplit(server.url)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, (address.hostname, address.port))
    headers = {"Origin": server.url, "Cookie": cookies}
    url = server.url.replace("http", "ws") + path
    client = await connect(url, sock=connection, additional_headers=headers, max_queue=1, max_size=None)
    try:
        yield client
    finally:
        # A client that does not read cannot close in an orderly way.
        client.transport.abort()
        await client.wait_closed()


async def read_all(client: ClientConnection) -> tuple[list[str], int, int | None]:
    """Read until the end. Return the names of events, the last seq and the close code."""
    names: list[str] = []
    seq = 0
    try:
        while True:
            frame = json.loads(await asyncio.wait_for(client.recv(), TIMEOUT_S))
            names += [event["name"] for event in frame.get("events", [])]
            seq = frame["seq"]
    except ConnectionClosed:
        return names, seq, client.close_code


@pytest.fixture
def session() -> Session:
    return Session(f"slow-{uuid.uuid4().hex[:8]}")


async def test_clients_that_do_not_read_keep_little_and_resume(server: Server, session: Session) -> None:
    """They get a part of the events and a close code, and the rest after a reconnect. Nothing keeps waiting."""
    events = [session.trace(), *(session.span("tool", f"event {n}") for n in range(EVENTS))]
    await asyncio.to_thread(send, server.ingest_url, server.ingest_key, events, size=BATCH_ROWS)
    cookies, path = cookie_header(server, "developer"), f"/ws/tail/?session={session.session_id}&after="
    closed, most = metric(server, "ariadne_live_closed_total"), 0.0

    def are_closed() -> bool:
        nonlocal most
        most = max(most, metric(server, "ariadne_live_waiting_bytes"))
        return metric(server, "ariadne_live_closed_total") >= closed + CLIENTS

    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(open_slow(server, f"{path}0", cookies)) for _ in range(CLIENTS)]
        await until(are_closed)
        names, seq, code = await read_all(clients[-1])
    assert CLIENTS * LOW_BYTES < most <= CLIENTS * (SOCKET_BYTES + FRAME_BYTES)
    assert code == TRY_AGAIN and 0 < len(names) < EVENTS
    async with connect(
        server.url.replace("http", "ws") + f"{path}{seq}",
        additional_headers={"Origin": server.url, "Cookie": cookies},
        max_size=None,
    ) as resumed:
        while len(names) < EVENTS:
            frame = json.loads(await asyncio.wait_for(resumed.recv(), TIMEOUT_S))
            names += [event["name"] for event in frame.get("events", [])]
    assert names == [f"event {n}" for n in range(EVENTS)]
    await until(lambda: metric(server, "ariadne_live_waiting_bytes") == 0)


@pytest.mark.req("A-PRI-5")
async def test_a_new_password_closes_open_sockets(start_server: Callable[..., Server], session: Session) -> None:
    """The page then shows the login. Another person's socket stays open."""
    server = start_server()
    await asyncio.to_thread(send, server.ingest_url, server.ingest_key, [session.trace(), session.span("tool", "one")])
    cookies, others_cookies = cookie_header(server, "developer"), cookie_header(server, "operator")
    url = server.url.replace("http", "ws") + "/ws/sessions/"
    async with (
        connect(url, additional_headers={"Origin": server.url, "Cookie": cookies}) as page,
        connect(url, additional_headers={"Origin": server.url, "Cookie": others_cookies}) as other,
    ):
        assert json.loads(await page.recv())["type"] == "hello"
        with psycopg.connect(server.database_url) as database:
            name = server.logins["developer"]["username"]
            database.execute("UPDATE auth_user SET password = 'md5$other$hash' WHERE username = %s", [name])
        _, _, code = await read_all(page)
        assert code == UNAUTHENTICATED
        await asyncio.to_thread(send, server.ingest_url, server.ingest_key, [session.span("tool", "two")])
        while session.session_id not in str(await asyncio.wait_for(other.recv(), TIMEOUT_S)):
            pass
