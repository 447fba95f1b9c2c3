"""Events whose ids contain a secret still meet each other, and their session is found by the id that the agent sent."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from reader import log_in

from ..conftest import Wire


@pytest.fixture
def secret() -> str:
    return f"ghp_{hashlib.sha256(uuid.uuid4().bytes).hexdigest()[:36]}"


def span(secret: str, span_id: str, **fields: Any) -> dict[str, Any]:
    return {"type": "span", "trace_id": f"run {secret}", "session_id": secret, "span_id": span_id, **fields}


def rows_of(wire: Wire, marker: str) -> list[dict[str, Any]]:
    query = "SELECT * FROM ingest_span WHERE name = %s ORDER BY started_at"
    return wire.rows(query, marker)


def test_parents_replays_and_late_events_meet(wire: Wire, name: str, secret: str) -> None:
    """In requests of their own, by JSON and by OTLP, and a later end completes the same span."""
    parent, child = f"a {secret}", f"b {secret}"
    first = span(secret, parent, name=name, started_at="2026-01-01T00:00:00Z")
    events = [first, first, span(secret, child, name=name, started_at="2026-01-01T00:00:01Z", parent_id=parent)]
    answers = [wire.send(event) for event in events]
    assert [answer["replaced_ids"] for answer in answers] == [3, 3, 4]
    wire.send({**first, "ended_at": "2026-01-01T00:00:09Z", "started_at": None})
    one, two = rows_of(wire, name)
    assert (two["parent_id"], two["trace_id"], two["session_key"]) == (
        one["span_id"],
        one["trace_id"],
        one["session_key"],
    )
    assert one["ended_at"] is not None and secret not in repr((one, two))
    attributes = [{"key": "session.id", "value": {"stringValue": secret}}]
    otlp = {"traceId": uuid.uuid4().hex, "spanId": "00f067aa0ba902b7", "name": name, "attributes": attributes}
    otlp |= {"startTimeUnixNano": "1767225602000000000", "endTimeUnixNano": "1767225603000000000"}
    answer = wire.post({"resourceSpans": [{"scopeSpans": [{"spans": [otlp]}]}]}, path="/v1/traces")
    assert answer.status_code == 200
    assert {row["session_key"] for row in rows_of(wire, name)} == {one["session_key"]}


def test_a_transcript_and_a_reader_find_the_session(server: Any, wire: Wire, name: str, secret: str) -> None:
    """The sender's own id is in the answer, as its library checks, and nowhere else."""
    wire.send(span(secret, "s1", name=name, kind="tool"))
    body = json.dumps({"role": "user", "content": name}).encode() + b"\n"
    query = {"session": secret, "step": 1, "sha256": hashlib.sha256(body).hexdigest()}
    answer = wire.post(
        body, path=f"/ingest/transcripts?{httpx.QueryParams(query)}", content_type="application/x-ndjson"
    )
    assert answer.json()["session"] == secret
    (row,) = rows_of(wire, name)
    keys = wire.rows("SELECT session_key, session_id FROM ingest_transcript WHERE session_key = %s", row["session_key"])
    assert len(keys) == 1 and secret not in keys[0]["session_id"]
    reader = log_in(server, "admin")
    shown = reader.get(f"/api/sessions/{quote(secret)}/").text
    reader.close()
    assert keys[0]["session_id"] in shown and secret not in shown


def test_a_harmless_id_is_not_counted(wire: Wire, name: str) -> None:
    assert "replaced_ids" not in wire.send({"type": "span", "trace_id": name, "span_id": "s", "session_id": name})
