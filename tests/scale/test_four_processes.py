"""Four web processes with Redis act as one: rights, keys and login limits end or count in all of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import psycopg
import pytest
from live_server import Server, run_server
from reader import cookie_header
from scale.redis_server import Redis
from wait import wait_until
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

PROCESSES = 4
SOCKETS = 16
# A right ends within ten seconds, and a key within five. The rest is for a busy machine.
SOCKET_S, KEY_S = 20.0, 20.0


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory, prepared_data: object) -> Iterator[Server]:
    redis = Redis()
    redis.start()
    environment = {"PROCESSES": str(PROCESSES), "REDIS_URL": redis.url}
    try:
        with run_server(tmp_path_factory.mktemp("four"), prepared_data, **environment) as running:  # type: ignore[arg-type]
            yield running
    finally:
        redis.kill()


def execute(server: Server, statement: str) -> None:
    with psycopg.connect(server.database_url, autocommit=True) as connection:
        connection.execute(statement)  # type: ignore[arg-type]


def post(server: Server, key: str) -> int:
    """Send an event over a new connection, which any process may accept."""
    event = {"type": "span", "trace_id": "t", "span_id": "s", "started_at": time.time()}
    return httpx.post(server.ingest_url, json=event, headers={"Authorization": f"Bearer {key}"}, timeout=60).status_code


def close_code(connection: ClientConnection, deadline: float) -> int | None:
    """Read until the server closes, and return its code."""
    try:
        while True:
            connection.recv(timeout=max(0.1, deadline - time.monotonic()))
    except TimeoutError:
        return None
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd else None


@pytest.mark.req("A-PRI-5")
def test_a_right_ends_in_all_processes(four: Server) -> None:
    """No process keeps a socket of someone who is no longer a member. Those of another person stay."""
    with ExitStack() as stack:

        def open_socket(role: str) -> ClientConnection:
            address = f"{four.url.replace('http', 'ws')}/ws/tail/"
            headers = {"Cookie": cookies[role]}
            return stack.enter_context(connect(address, origin=four.url, additional_headers=headers, open_timeout=60))  # type: ignore[arg-type]

        cookies = {role: cookie_header(four, role) for role in ("developer", "admin")}
        sockets = [open_socket("developer") for _ in range(SOCKETS)]
        other = open_socket("admin")
        for connection in (*sockets, other):
            connection.recv(timeout=60)
        execute(
            four,
            "DELETE FROM viewer_membership WHERE user_id = (SELECT id FROM auth_user WHERE username = 'developer')",
        )
        deadline = time.monotonic() + SOCKET_S
        assert {close_code(connection, deadline) for connection in sockets} == {4403}
        assert close_code(other, time.monotonic() + 0.5) is None


def test_a_revoked_key_ends_in_all_processes(four: Server) -> None:
    """Each process forgets what it knew of the key."""
    assert {post(four, four.ingest_key) for _ in range(SOCKETS)} == {200}
    execute(four, "UPDATE ingest_ingestkey SET revoked_at = now()")
    try:
        assert wait_until(lambda: {post(four, four.ingest_key) for _ in range(SOCKETS)} == {401}, timeout_s=KEY_S)
    finally:
        execute(four, "UPDATE ingest_ingestkey SET revoked_at = NULL")
    assert wait_until(lambda: {post(four, four.ingest_key) for _ in range(SOCKETS)} == {200}, timeout_s=KEY_S)


def test_login_limits_count_in_all_processes(four: Server) -> None:
    """Of thirty guesses at once, five are answered."""

    def guess(_: int) -> int:
        with httpx.Client(base_url=four.url, timeout=60) as client:
            client.get("/login/")
            form = {"username": "auditor", "password": "wrong", "csrfmiddlewaretoken": client.cookies["csrftoken"]}
            return client.post("/login/", data=form, headers={"Referer": f"{four.url}/login/"}).status_code

    with ThreadPoolExecutor(30) as threads:
        statuses = Counter(threads.map(guess, range(30)))
    # The guess that reaches the limit says so.
    assert statuses[200] + 1 == 5 and statuses[429] == 26, statuses


@pytest.mark.req("A-FLT-1")
def test_each_process_names_a_read_only_database_once(four: Server) -> None:
    """Once for its commits and once for `/readyz`. No process says that it is ready, and none writes a traceback."""
    lines = len(four.log.splitlines())
    reconnect = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'ariadne' AND pid <> pg_backend_pid()"
    )

    def is_ready(expected: int) -> bool:
        answers = (httpx.get(f"{four.url}/readyz", timeout=60) for _ in range(SOCKETS))
        return {answer.status_code for answer in answers} == {expected}

    execute(four, "ALTER DATABASE ariadne SET default_transaction_read_only = on")
    try:
        execute(four, reconnect)
        assert wait_until(lambda: is_ready(503))
        assert {post(four, four.ingest_key) for _ in range(SOCKETS)} == {503}
    finally:
        with psycopg.connect(four.database_url, autocommit=True, options="-c default_transaction_read_only=off") as own:
            own.execute("ALTER DATABASE ariadne RESET default_transaction_read_only")
        execute(four, reconnect)
    assert wait_until(lambda: is_ready(200) and post(four, four.ingest_key) == 200)
    log = four.log.splitlines()[lines:]
    assert 1 <= len([line for line in log if "writes_fail reason='read-only'" in line]) <= 2 * PROCESSES
    assert "Traceback" not in "\n".join(log)
