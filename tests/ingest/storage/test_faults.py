"""Processes are killed under load: no acknowledged span is lost or duplicated, and the service recovers."""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Iterator

import pytest
from wait import wait_until

from ..faults import Fault, Senders, Stack, check, get, kill_postgres, kill_web, running, span


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running(tmp_path_factory.mktemp("faults")) as stack:
        yield stack


def post(stack: Stack, body: object) -> tuple[int, dict[str, str]]:
    status, headers, _answer = post_and_read(stack, body)
    return status, headers


def post_and_read(stack: Stack, body: object) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", stack.port, timeout=30)
    headers = {"Authorization": f"Bearer {stack.key}", "Content-Type": "application/json"}
    connection.request("POST", "/ingest", json.dumps(body), headers)
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    return response.status, {key.lower(): value for key, value in response.getheaders()}, answer


@pytest.mark.req("K-ING-1")
@pytest.mark.parametrize("fault", [kill_web, kill_postgres], ids=["kill -9 web", "kill -9 postgres"])
def test_no_acknowledged_span_is_lost(stack: Stack, fault: Fault) -> None:
    """Two faults under load with senders that retry: each span is stored once, and the counts are right."""
    with Senders(stack, count=4, name=fault.__name__) as senders:
        for _ in range(2):
            senders.wait_for(300)
            fault(stack)
        senders.wait_for(300)
    assert check(stack, senders)["acknowledged"] >= 900


def test_requests_fail_fast_without_a_database(stack: Stack) -> None:
    """The response is 503 with Retry-After. The service recovers when the database is back."""
    stack.wait_until_ready()
    assert post(stack, span("outage", "before"))[0] == 200
    stack.kill_postgres()
    try:
        for _ in range(3):
            began = time.monotonic()
            status, headers = post(stack, span("outage", "during"))
            assert (status, headers["retry-after"]) == (503, "1")
            assert time.monotonic() - began < 10
        assert get(stack.port, "/healthz")[0] == 200
        assert get(stack.port, "/readyz")[0] == 503
    finally:
        stack.start_postgres()
    stack.wait_until_ready()
    assert post(stack, span("outage", "during"))[0] == 200
    with stack.connect() as database:
        rows = database.execute("SELECT span_id FROM ingest_span WHERE trace_id = 'outage' ORDER BY seq").fetchall()
    assert [row[0] for row in rows] == ["before", "during"]


def test_pages_fail_fast_while_the_database_hangs(stack: Stack) -> None:
    """Running and new requests get 503, and pages work again afterwards."""
    stack.wait_until_ready()
    assert get_sessions(stack)[0] == 401
    stack.stall_postgres(True)
    try:
        for _ in range(2):
            assert get_sessions(stack) == (503, "5")
        assert get(stack.port, "/static/version/css/base.css")[0] == 200
        assert get(stack.port, "/readyz")[0] == 503
        assert b"ariadne_ingest_database_connected 0.0" in get(stack.port, "/metrics")[1]
    finally:
        stack.stall_postgres(False)
    stack.wait_until_ready()
    assert get_sessions(stack)[0] == 401


@pytest.mark.req("A-OPS-1")
def test_a_read_only_database_is_not_ready(stack: Stack) -> None:
    """As after a failover to a standby. /readyz gives the reason, and recovers."""
    stack.wait_until_ready()
    with stack.connect() as database:
        database.execute("SET default_transaction_read_only = off")
        database.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        try:
            database.execute("SELECT pg_reload_conf()")
            assert wait_until(lambda: get(stack.port, "/readyz")[0] == 503)
            body = json.loads(get(stack.port, "/readyz")[1])
            assert (body["ready"], body["database"], body["channel_layer"]) == (False, "read-only", "ok")
            for _ in range(5):
                status, _headers, answer = post_and_read(stack, span("outage", "read-only"))
                assert status == 503 and b"The database is read-only" in answer
        finally:
            database.execute("ALTER SYSTEM RESET default_transaction_read_only")
            database.execute("SELECT pg_reload_conf()")
    stack.wait_until_ready()
    assert post(stack, span("outage", "read-only"))[0] == 200
    log = (stack.folder / "web.log").read_text()
    assert log.count("writes_fail reason='read-only'") == 2  # a commit, and /readyz
    assert "commit_failed" not in log


def get_sessions(stack: Stack) -> tuple[int, str | None]:
    """Request the list of sessions with a wrong password, which only the database can reject."""
    connection = http.client.HTTPConnection("127.0.0.1", stack.port, timeout=20)
    connection.request(
        "GET", "/api/sessions/", headers={"Authorization": "Basic " + base64.b64encode(b"no:body").decode()}
    )
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status, response.getheader("Retry-After")


def test_ingest_requests_time_out_while_the_database_hangs(stack: Stack) -> None:
    """The response is 503 in time. A retry after the stall stores each span once."""
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
        rows = database.execute("SELECT span_id FROM ingest_span WHERE trace_id = 'stalled' ORDER BY seq").fetchall()
    assert [row[0] for row in rows] == ["before", "during"]
