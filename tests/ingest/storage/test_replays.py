"""Batches that are sent again leave no error in the log of Postgres, and change nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from live_server import Server

SPANS = 40


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=60) as client:
        yield client


def events(name: str) -> list[dict[str, Any]]:
    return [
        {
            "type": "span",
            "trace_id": f"trace-{name}",
            "span_id": f"{number:016x}",
            "kind": "tool",
            "name": "read",
            "started_at": 1_790_000_000.0,
            "ended_at": 1_790_000_001.0,
            "data": {"session_id": name},
        }
        for number in range(SPANS)
    ]


def otlp(name: str) -> dict[str, Any]:
    spans = [
        {
            "traceId": f"{hash(name) % 16**32:032x}",
            "spanId": f"{number + 1:016x}",
            "name": "chat gpt-5",
            "startTimeUnixNano": "1790000000000000000",
            "endTimeUnixNano": "1790000001000000000",
            "attributes": [{"key": "session.id", "value": {"stringValue": name}}],
        }
        for number in range(SPANS)
    ]
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "test"}, "spans": spans}]}]}


@pytest.mark.req("K-ING-1")
@pytest.mark.parametrize(
    ("path", "body"),
    [("/ingest", lambda name: {"batch": events(name)}), ("/v1/traces", otlp)],
    ids=["events", "otlp"],
)
def test_a_replay_writes_no_error(
    server: Server, client: httpx.Client, name: str, path: str, body: Callable[[str], Any]
) -> None:
    log = server.data_dir / "postgres.log"
    before = len(log.read_text(errors="replace"))
    for _ in range(4):
        answer = client.post(server.url + path, json=body(name), headers=server.headers)
        assert answer.status_code == 200, answer.text
    assert "ERROR" not in log.read_text(errors="replace")[before:]


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1), slice(10, None), slice(None, 10)])
def test_a_part_or_another_order_writes_no_error(server: Server, client: httpx.Client, name: str, order: slice) -> None:
    """New spans may be among them."""
    log = server.data_dir / "postgres.log"
    sent = events(name)
    client.post(server.ingest_url, json={"batch": sent[:30]}, headers=server.headers).raise_for_status()
    before = len(log.read_text(errors="replace"))
    client.post(server.ingest_url, json={"batch": sent[order]}, headers=server.headers).raise_for_status()
    assert "ERROR" not in log.read_text(errors="replace")[before:]
