"""Limits, metrics, logs without payloads, transcripts over HTTP, and live notifications."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from channels.layers import get_channel_layer

from ingest.cells import cells_of
from ingest.errors import RateLimited
from ingest.http import endpoints, keys
from ingest.http.limits import MemoryLimit, RateLimit
from ingest.http.service import run_service
from ingest.models import Project, Session
from ingest.storage import notifications, writer
from tests.wait import wait_until

from ..conftest import Wire

ROOT = Path(__file__).resolve().parents[3]
T0 = "2026-11-16T04:00:00Z"
SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"


def span(trace: str, span_id: str = "a", **more: Any) -> dict[str, Any]:
    return {"type": "span", "trace_id": trace, "span_id": span_id, "started_at": T0, "ended_at": T0, **more}


@pytest.mark.req("S-RED-1")
def test_secrets_are_redacted_on_arrival(wire: Wire, name: str) -> None:
    """In data, payload, names and metadata, by key and by pattern. Other values are unchanged."""
    wire.send(
        {"type": "trace", "trace_id": name, "metadata": {"password": "hunter2-hunter2", "user": "ada"}},
        span(name, "a", name=f"call {SECRET}", data={"note": f"api_key={SECRET}", "turn": 3, "tokens_before": 7}),
        span(name, "b", payload={"headers": {"authorization": f"Bearer {SECRET}"}, "text": "card 4111 1111 1111 1111"}),
        span(name, "c", data={"note": "nothing here"}),
    )
    stored = json.dumps(wire.spans(name), default=str)
    (trace,) = wire.rows("SELECT metadata FROM ingest_trace WHERE trace_id = %s", name)
    assert SECRET not in stored
    assert "4111" not in stored
    assert trace["metadata"] == {"password": "<REDACTED>", "user": "ada"}
    rows = {row["span_id"]: row for row in wire.spans(name)}
    assert rows["a"]["data"] == {"note": "api_key=<REDACTED>", "turn": 3, "tokens_before": 7}
    assert rows["c"]["data"] == {"note": "nothing here"}


def test_transcripts_are_stored_once(wire: Wire, name: str) -> None:
    """The same bytes again are 200, different bytes 409, and a wrong or missing digest 400."""
    lines = [{"id": f"m{n}", "role": "user", "content": f"hello {n} api_key={SECRET}"} for n in range(3)]
    body = "\n".join(map(json.dumps, lines)).encode()

    def upload(content: bytes, **query: Any) -> int:
        parameters = {"session": name, "step": 1, "sha256": hashlib.sha256(content).hexdigest(), **query}
        path = "/ingest/transcripts?" + "&".join(f"{key}={value}" for key, value in parameters.items())
        return wire.post(gzip.compress(content), path=path, content_encoding="gzip").status_code

    assert [upload(body), upload(body), upload(body + b"\n{}"), upload(body, sha256="0" * 64)] == [200, 200, 409, 400]
    other = body + b"\n{}"
    conflicting_path = f"/ingest/transcripts?session={name}&step=1&sha256={hashlib.sha256(other).hexdigest()}"
    assert wire.post(other, path=conflicting_path).json()["next_step"] == 2
    assert [upload(body, step="x"), upload(body, session=""), upload(body, sha256="")] == [400, 400, 400]
    assert upload(body, step=2, created_at="9999-12-31T23:59:59-14:00") == 400
    (row,) = wire.rows("SELECT * FROM ingest_transcript WHERE session_id = %s", name)
    assert (row["step"], row["message_count"], sum(row["redactions"].values())) == (1, 3, 3)


def test_a_transcript_can_be_a_gzip_file(wire: Wire, name: str) -> None:
    """Without Content-Encoding. The digest is that of the uncompressed lines."""
    body = b'{"role": "user", "content": "hello"}\n'
    path = f"/ingest/transcripts?session_id={name}&step=1&sha256={hashlib.sha256(body).hexdigest()}"
    response = wire.post(gzip.compress(body), path=path, content_type="application/gzip")
    assert (response.status_code, response.json()["session"], response.json()["messages"]) == (200, name, 1)


@pytest.mark.req("A-FAIR-1")
@pytest.mark.parametrize("owner", ["KEY", "PROJECT"])
def test_a_key_or_project_over_its_rate_is_429(owner: str, start_server: Any) -> None:
    """The request succeeds after the time in Retry-After."""
    running = start_server("limited", **{f"ARIADNE_INGEST_{owner}_EVENTS_PER_S": "50"})
    with httpx.Client(headers=running.headers, timeout=30) as http:
        # The limit allows bursts of 100 events, and a full bucket accepts more at once. The rest takes 4 s to refill.
        body = [span("limited", f"s{n}") for n in range(300)]
        assert http.post(running.ingest_url, json=body).status_code == 200
        limited = http.post(running.ingest_url, json=body[:1])
        assert (limited.status_code, limited.json()["code"]) == (429, "rate_limited")
        assert 1 <= int(limited.headers["retry-after"]) <= 5
        assert wait_until(lambda: http.post(running.ingest_url, json=body[:1]).status_code == 200)


@pytest.mark.req("A-FAIR-1")
def test_a_full_queue_is_429_and_loses_nothing(start_server: Any) -> None:
    """While commits wait, a key gets 429 after its share of the queue. Everything that was accepted is stored once."""
    running = start_server("full", ARIADNE_INGEST_MAX_BACKLOG_S="1", ARIADNE_INGEST_ANSWER_TIMEOUT_S="60")
    bodies = [[span(f"full-{number}", f"s{n}") for n in range(2_000)] for number in range(4)]
    with (
        psycopg.connect(running.database_url, autocommit=True) as database,
        httpx.Client(base_url=running.url, headers=running.headers, timeout=60) as http,
        ThreadPoolExecutor(len(bodies)) as senders,
    ):
        assert http.post("/ingest", json=span("full", "first")).status_code == 200
        database.execute("BEGIN")
        database.execute("SELECT FROM ingest_cell FOR UPDATE")
        accepted = [senders.submit(http.post, "/ingest", json=body) for body in bodies]
        assert wait_until(lambda: "ariadne_ingest_queue_records 8000.0" in http.get("/metrics").text)
        limited = http.post("/ingest", json=span("full", "last"))
        assert (limited.status_code, limited.json()["code"]) == (429, "rate_limited")
        assert 1 <= int(limited.headers["retry-after"]) <= 10
        database.execute("COMMIT")
        assert [response.result().status_code for response in accepted] == [200] * len(bodies)
        assert http.post("/ingest", json=span("full", "last")).status_code == 200
        assert database.execute("SELECT count(*) FROM ingest_span").fetchone() == (8_002,)


@pytest.mark.django_db(transaction=True)
def test_a_full_queue_of_all_projects_is_503(monkeypatch: pytest.MonkeyPatch) -> None:
    """The response has the time to wait, and a smaller request is still stored."""
    key = keys.create(Project.objects.create(slug="full", name="Full"), label="test")
    monkeypatch.setattr(writer, "QUEUE_MAX_RECORDS", 2)

    async def run() -> None:
        full = [span("full", f"s{n}") for n in range(3)]
        async with run_service():
            status, response, headers = await call("/ingest", json.dumps(full).encode(), key)
            assert (status, response["code"], headers[b"retry-after"]) == (503, "unavailable", b"1")
            status, _response, _headers = await call("/ingest", json.dumps(full[:2]).encode(), key)
            assert status == 200

    asyncio.run(run())


def test_a_rate_limit_allows_a_burst_of_two_seconds() -> None:
    """Keys do not affect each other, and a request larger than the bucket is accepted when it is full."""
    limit = RateLimit(100, "events")
    limit.consume(1, 1_000)
    with pytest.raises(RateLimited, match="100 events per second"):
        limit.consume(1, 1)
    limit.consume(2, 200)


def test_reserved_memory_is_released() -> None:
    """Each request fits because the previous one is finished."""
    memory = MemoryLimit(100)
    for _ in range(5):
        with memory.reserve(80):
            assert memory.held_bytes == 80
    assert memory.held_bytes == 0


def test_logs_do_not_contain_payloads(wire: Wire, server: Any, name: str) -> None:
    """The log quotes neither stored nor rejected events."""
    wire.post([span(name, data={"note": "quoted-in-a-log"}), {"type": "quoted-in-a-log"}])
    wire.post(b'{"quoted-in-a-log')
    assert "quoted-in-a-log" not in server.log


def test_metrics_count_events(wire: Wire, name: str) -> None:
    """Accepted and rejected events are counted, and the other metrics are present."""

    def value(text: str, start: str) -> float:
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(start))

    before = wire.http.get(wire.url + "/metrics").text
    wire.post([span(name), {"type": "nonsense"}])
    after = wire.http.get(wire.url + "/metrics").text
    for metric in ("accepted", "rejected"):
        start = f'ariadne_ingest_events_{metric}_total{{endpoint="/ingest"}}'
        assert value(after, start) - value(before, start) == 1
    for metric in ("ack_seconds_count", "commit_seconds_count", "queue_records", "lag_seconds"):
        assert f"ariadne_ingest_{metric}" in after
    assert value(after, "ariadne_ingest_database_connected") == 1
    assert value(after, "ariadne_database_connections") >= 1
    assert value(after, "ariadne_live_sockets") >= 0


def test_production_settings_pass_the_deployment_check(tmp_path: Path) -> None:
    """`manage.py check --deploy` reports no warning."""
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "ariadne.settings",
        "ARIADNE_PRODUCTION": "1",
        "ARIADNE_SECRET_KEY": "k" * 20 + "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGH",
        "ARIADNE_HOSTS": "ariadne.example.com",
        "DATABASE_URL": "postgresql://ariadne@localhost/ariadne",
        "DATA_DIR": str(tmp_path),
    }
    result = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr


async def call(path: str, body: bytes, key: str) -> tuple[int, dict[str, Any], dict[bytes, bytes]]:
    """Call the ASGI application directly. Return status, body and headers of the response."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"authorization", f"Bearer {key}".encode()), (b"content-type", b"application/json")]
    await endpoints.application({"type": "http", "method": "POST", "path": path, "headers": headers}, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"]), dict(sent[0]["headers"])


@pytest.mark.django_db(transaction=True)
def test_readers_are_notified_after_the_commit() -> None:
    """A notification has the highest sequence number and the sessions of the commit."""
    project = Project.objects.create(slug="live", name="Live")
    key = keys.create(project, label="test")

    async def run() -> dict[str, Any]:
        layer = get_channel_layer()
        assert layer is not None
        channel = await layer.new_channel()
        await layer.group_add(notifications.GROUP, channel)
        spans = [span("live-trace", f"s{n}") for n in range(3)]
        async with run_service():
            status, response, _headers = await call("/ingest", json.dumps(spans).encode(), key)
            assert (status, response["count"]) == (200, 3)
            notification: dict[str, Any] = await asyncio.wait_for(layer.receive(channel), 5)
        return notification

    notification = asyncio.run(run())
    stored = Session.objects.get(session_id="live-trace")
    assert notification == {
        "type": notifications.MESSAGE_TYPE,
        "cell": cells_of(project.pk)[0],
        "project": project.pk,
        "seq": stored.last_seq,
        "sessions": [str(stored.session_key)],
    }
