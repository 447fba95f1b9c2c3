"""Each message is stored once, and payloads are restored as they were sent, redacted."""

from __future__ import annotations

import hashlib
import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import zstandard
from django.db import connection
from retention_runs import expire

from ingest.cells import cells_of
from ingest.decoding.records import Span
from ingest.decoding.span_stats import NO_STATS
from ingest.models import Message, Project, Session
from ingest.storage import messages
from ingest.storage.database import partitions
from ingest.storage.payloads import pack
from viewer.sessions import queries

from ..conftest import Wire

CELL, OTHER_CELL = cells_of(1, 2)
T0 = "2026-11-16T04:00:00Z"


def prompt(turns: int, name: str) -> list[dict[str, Any]]:
    return [{"role": ("user", "assistant")[n % 2], "content": f"{name} turn {n} " + "word " * 80} for n in range(turns)]


def generation(trace: str, turn: int, messages: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "type": "span",
        "trace_id": trace,
        "span_id": f"g{turn}",
        "kind": "generation",
        "started_at": T0,
        "data": {"model": "gpt-5", "input": messages},
    }


def test_messages_of_a_growing_prompt_are_stored_once(wire: Wire, name: str) -> None:
    """Twenty turns send 210 messages. Twenty are stored, and each prompt is an ordered list of references."""
    for turn in range(1, 21):
        wire.send(generation(name, turn, prompt(turn, name)))
    rows = wire.spans(name)
    hashes = [item["$message"] for item in rows[-1]["payload"]["input"]]
    expected = [
        hashlib.sha256(json.dumps(item, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()
        for item in prompt(20, name)
    ]
    assert hashes == expected
    assert [item["$message"] for item in rows[9]["payload"]["input"]] == hashes[:10]
    stored = wire.rows(
        "SELECT * FROM ingest_message WHERE hash = ANY(%s)", [bytes.fromhex(digest) for digest in hashes]
    )
    assert len(stored) == 20
    body = json.loads(zstandard.ZstdDecompressor().decompress(stored[0]["body"]))
    assert body in prompt(20, name)


def test_messages_are_hashed_after_redaction(wire: Wire, name: str) -> None:
    """The secret is not in the stored text, and the hash is that of the stored text."""
    secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    messages = [{"role": "user", "content": f"{name} my key: api_key={secret} " + "word " * 80}]
    wire.send(generation(name, 1, messages))
    (row,) = wire.spans(name)
    digest = bytes.fromhex(row["payload"]["input"][0]["$message"])
    (stored,) = wire.rows("SELECT * FROM ingest_message WHERE hash = %s", digest)
    text = zstandard.ZstdDecompressor().decompress(stored["body"])
    assert secret.encode() not in text
    assert hashlib.sha256(text).digest() == digest


def span(payload: dict[str, Any]) -> Span:
    return Span("t", "s", None, "generation", "", "", 0, None, b"{}", json.dumps(payload).encode(), None, NO_STATS)


@pytest.mark.django_db
def test_restore_returns_the_original_payload() -> None:
    """Ids, short messages and other values stay in the payload."""
    payload = {
        "input": [{"id": "m1", **prompt(1, "x")[0]}, {"role": "user", "content": "short"}],
        "output": prompt(2, "y"),
        "other": [1, "two"],
    }
    stored_span = span(payload)
    messages.extract(stored_span, payload)
    assert stored_span.messages is not None
    for digest, text in stored_span.messages.items():
        body = zstandard.compress(text)
        Message.objects.create(cell=CELL, hash=digest, day="2026-11-16", size=len(text), body=body)
    stored = json.loads(stored_span.payload or b"")
    assert stored["input"][0]["id"] == "m1"
    assert messages.restore(CELL, stored) == payload
    assert messages.restore(OTHER_CELL, stored)["output"][0]["missing"] is True


@pytest.mark.django_db
def test_messages_past_retention_are_deleted() -> None:
    """The period starts on the last day on which a span contained the message."""
    owner = Project.objects.create(slug="short", name="short", retention_days=7)
    (cell,), today = cells_of(owner.pk), datetime.now(UTC).date()
    for age in (6, 8):
        Message.objects.create(cell=cell, hash=bytes([age]) * 32, day=today - timedelta(days=age), size=1, body=b"x")
    expire()
    assert [bytes(row.hash)[0] for row in Message.objects.filter(cell=cell)] == [6]


@pytest.mark.django_db
def test_queries_return_messages_instead_of_references() -> None:
    """The inspector's payload is restored."""
    payload = {"input": prompt(1, "seen")}
    stored_span = span(payload)
    messages.extract(stored_span, payload)
    ((digest, text),) = (stored_span.messages or {}).items()
    Message.objects.create(cell=CELL, hash=digest, day="2026-11-16", size=len(text), body=zstandard.compress(text))
    day = datetime.now(UTC).date()
    session = Session(cell=CELL, session_key=uuid.uuid4(), session_id="x", day=day, last_seq=1)
    with connection.cursor() as cursor:
        cursor.execute(partitions.create_statement(day))
        cursor.execute(
            "INSERT INTO ingest_span (session_key, session_day, trace_id, span_id, cell, seq, payload)"
            " VALUES (%s, %s, 't', 's', %s, 1, %s)",
            [session.session_key, day, session.cell, pack(stored_span.payload or b"")],
        )
    full_span = queries.span(session, "t:s", with_payload=True)
    assert full_span is not None
    assert full_span.payload == {"input": prompt(1, "seen")}
