"""What an operator relies on: limits, health, metrics, logs without payloads, transcripts over HTTP, live notices."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from channels.layers import get_channel_layer

from ingest.errors import RateLimited
from ingest.http import endpoints, keys, service
from ingest.http.limits import MemoryLimit, RateLimit
from ingest.models import Project, Session
from ingest.storage import notifications

from ..conftest import Wire

ROOT = Path(__file__).resolve().parents[3]
T0 = "2026-11-16T04:00:00Z"
SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"


def span(trace: str, span_id: str = "a", **more: Any) -> dict[str, Any]:
    return {"type": "span", "trace_id": trace, "span_id": span_id, "started_at": T0, "ended_at": T0, **more}


@pytest.mark.req("S-RED-1")
def test_secrets_are_hidden_on_arrival(wire: Wire, name: str) -> None:
    """In data, payload, names and metadata, by key and by pattern; what is beside them stays."""
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


def test_transcripts_are_taken_once(wire: Wire, name: str) -> None:
    """200, also for the same bytes again; 409 for others, 400 for a wrong digest or none."""
    lines = [{"id": f"m{n}", "role": "user", "content": f"hello {n} api_key={SECRET}"} for n in range(3)]
    body = "\n".join(map(json.dumps, lines)).encode()

    def upload(content: bytes, **query: Any) -> int:
        asked = {"session": name, "step": 1, "sha256": hashlib.sha256(content).hexdigest(), **query}
        path = "/ingest/transcripts?" + "&".join(f"{key}={value}" for key, value in asked.items())
        return wire.post(gzip.compress(content), path=path, content_encoding="gzip").status_code

    assert [upload(body), upload(body), upload(body + b"\n{}"), upload(body, sha256="0" * 64)] == [200, 200, 409, 400]
    assert [upload(body, step="x"), upload(body, session=""), upload(body, sha256="")] == [400, 400, 400]
    assert upload(body, step=2, created_at="9999-12-31T23:59:59-14:00") == 400
    (row,) = wire.rows("SELECT * FROM ingest_transcript WHERE session_id = %s", name)
    assert (row["step"], row["message_count"], sum(row["redactions"].values())) == (1, 3, 3)


def test_a_transcript_may_be_a_packed_file(wire: Wire, name: str) -> None:
    """Sent as it lies on disk, with no Content-Encoding; the digest is that of its lines."""
    body = b'{"role": "user", "content": "hello"}\n'
    path = f"/ingest/transcripts?session_id={name}&step=1&sha256={hashlib.sha256(body).hexdigest()}"
    answer = wire.post(gzip.compress(body), path=path, content_type="application/gzip")
    assert (answer.status_code, answer.json()["session"], answer.json()["messages"]) == (200, name, 1)


def test_a_key_that_sends_too_much_is_slowed(start_server: Any) -> None:
    """429 with the time after which it is worth another try; then it is let in again."""
    running = start_server("limited", ARIADNE_INGEST_KEY_EVENTS_PER_S="50")
    import httpx

    with httpx.Client(headers=running.headers) as http:
        body = [span("limited", f"s{n}") for n in range(60)]
        assert http.post(running.ingest_url, json=body).status_code == 200
        refused = http.post(running.ingest_url, json=body)
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
        wait_s = int(refused.headers["retry-after"])
        assert 1 <= wait_s <= 2
        deadline = time.monotonic() + wait_s + 3
        while (answer := http.post(running.ingest_url, json=body)).status_code == 429:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert answer.status_code == 200


def test_an_allowance_holds_two_seconds() -> None:
    """One key's debt is not another's, and a request larger than the bucket passes when it is full."""
    allowance = RateLimit(100, "events")
    allowance.consume(1, 1_000)
    with pytest.raises(RateLimited, match="100 events per second"):
        allowance.consume(1, 1)
    allowance.consume(2, 200)


def test_room_is_given_back() -> None:
    """What is held counts only while it is held."""
    room = MemoryLimit(100)
    for _ in range(5):
        with room.reserve(80):
            assert room.held_bytes == 80
    assert room.held_bytes == 0


def test_logs_hold_no_payload(wire: Wire, server: Any, name: str) -> None:
    """Whatever was sent, stored or refused, the log does not quote it."""
    wire.post([span(name, data={"note": "quoted-in-a-log"}), {"type": "quoted-in-a-log"}])
    wire.post(b'{"quoted-in-a-log')
    assert "quoted-in-a-log" not in server.log


def test_metrics_count_what_happened(wire: Wire, name: str) -> None:
    """Accepted, rejected, latency, queue, lag and connection, for a scraper."""

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
    """`manage.py check --deploy` has nothing to say."""
    environment = {
        **os.environ,
        "ARIADNE_PRODUCTION": "1",
        "ARIADNE_SECRET_KEY": "k" * 20 + "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGH",
        "ARIADNE_HOSTS": "ariadne.example.com",
        "DATABASE_URL": "postgresql://ariadne@localhost/ariadne",
        "DATA_DIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


async def call(path: str, body: bytes, key: str) -> tuple[int, dict[str, Any]]:
    """The application itself, without a server in front of it."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"authorization", f"Bearer {key}".encode()), (b"content-type", b"application/json")]
    await endpoints.application({"type": "http", "method": "POST", "path": path, "headers": headers}, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])


@pytest.mark.django_db(transaction=True)
def test_readers_are_told_after_the_commit() -> None:
    """One notice for each commit, with the highest sequence number and the sessions, when the rows can be read."""
    project = Project.objects.create(slug="live", name="Live")
    key = keys.create(project, label="test")

    async def run() -> dict[str, Any]:
        layer = get_channel_layer()
        assert layer is not None
        channel = await layer.new_channel()
        await layer.group_add(notifications.GROUP, channel)
        status, answer = await call(
            "/ingest", json.dumps([span("live-trace", f"s{n}") for n in range(3)]).encode(), key
        )
        assert (status, answer["count"]) == (200, 3)
        notice: dict[str, Any] = await asyncio.wait_for(layer.receive(channel), 5)
        await service.close()
        return notice

    notice = asyncio.run(run())
    stored = Session.objects.get(session_id="live-trace")
    assert notice == {
        "type": notifications.MESSAGE_TYPE,
        "project": project.pk,
        "seq": stored.last_seq,
        "sessions": [str(stored.session_key)],
    }
