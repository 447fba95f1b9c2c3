"""Parts are killed in mid-load: nothing acknowledged is lost or stored twice, and service resumes by itself."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import time
from collections.abc import Iterator

import pytest

from ..faults import Fault, Senders, Stack, check, get, kill_postgres, kill_web, running, span


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running(tmp_path_factory.mktemp("faults"), free_port()) as found:
        yield found


def post(stack: Stack, body: object) -> tuple[int, dict[str, str]]:
    link = http.client.HTTPConnection("127.0.0.1", stack.port, timeout=30)
    headers = {"Authorization": f"Bearer {stack.key}", "Content-Type": "application/json"}
    link.request("POST", "/ingest", json.dumps(body), headers)
    answer = link.getresponse()
    answer.read()
    link.close()
    return answer.status, {key.lower(): value for key, value in answer.getheaders()}


@pytest.mark.req("K-ING-1")
@pytest.mark.parametrize("fault", [kill_web, kill_postgres], ids=["kill -9 web", "kill -9 postgres"])
def test_nothing_acknowledged_is_lost(stack: Stack, fault: Fault) -> None:
    """Two rounds in mid-load with senders that try again: all there, exactly once, sums right."""
    with Senders(stack, count=4, name=fault.__name__) as senders:
        for _ in range(2):
            senders.wait_for(300)
            fault(stack)
        senders.wait_for(300)
    assert check(stack, senders)["acknowledged"] >= 900


def test_without_a_database_clients_are_told_to_come_back(stack: Stack) -> None:
    """503 with Retry-After, at once; the process lives; when the database returns, so does service."""
    stack.wait_until_ready()
    assert post(stack, span("away", "before"))[0] == 200
    stack.kill_postgres()
    try:
        for _ in range(3):
            began = time.monotonic()
            status, headers = post(stack, span("away", "during"))
            assert (status, headers["retry-after"]) == (503, "1")
            assert time.monotonic() - began < 5
        assert get(stack.port, "/healthz")[0] == 200
        assert get(stack.port, "/readyz")[0] == 503
    finally:
        stack.start_postgres()
    stack.wait_until_ready()
    assert post(stack, span("away", "during"))[0] == 200
    with stack.connect() as database:
        found = database.execute("SELECT span_id FROM ingest_span WHERE trace_id = 'away' ORDER BY seq").fetchall()
    assert [row[0] for row in found] == ["before", "during"]


def test_pages_do_not_wait_for_a_database_that_hangs(stack: Stack) -> None:
    """Whoever waits is told, whoever comes later is told at once; afterwards pages are there again by themselves."""
    stack.wait_until_ready()
    assert read(stack)[0] == 401
    stack.stall_postgres(True)
    try:
        for _ in range(2):
            assert read(stack) == (503, "5")
        assert get(stack.port, "/static/css/base.css")[0] == 200
        assert get(stack.port, "/readyz")[0] == 503
        assert b"ariadne_ingest_database_connected 0.0" in get(stack.port, "/metrics")[1]
    finally:
        stack.stall_postgres(False)
    stack.wait_until_ready()
    assert read(stack)[0] == 401


def read(stack: Stack) -> tuple[int, str | None]:
    """The list of sessions, for somebody whom only the database can tell not to be a reader."""
    link = http.client.HTTPConnection("127.0.0.1", stack.port, timeout=20)
    link.request("GET", "/api/sessions/", headers={"Authorization": "Basic " + base64.b64encode(b"no:body").decode()})
    answer = link.getresponse()
    answer.read()
    link.close()
    return answer.status, answer.getheader("Retry-After")


def test_a_database_that_hangs_holds_nobody_for_long(stack: Stack) -> None:
    """Requests are answered with 503 in time, what waits is bounded, and after the stall everything is stored once."""
    stack.wait_until_ready()
    assert post(stack, span("stalled", "before"))[0] == 200
    stack.stall_postgres(True)
    try:
        began = time.monotonic()
        status, headers = post(stack, span("stalled", "during"))
        assert (status, headers["retry-after"]) == (503, "1")
        assert time.monotonic() - began < 15
        assert get(stack.port, "/healthz")[0] == 200
    finally:
        stack.stall_postgres(False)
    deadline = time.monotonic() + 60
    while post(stack, span("stalled", "during"))[0] != 200:
        assert time.monotonic() < deadline
    with stack.connect() as database:
        found = database.execute("SELECT span_id FROM ingest_span WHERE trace_id = 'stalled' ORDER BY seq").fetchall()
    assert [row[0] for row in found] == ["before", "during"]
