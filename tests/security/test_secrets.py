"""Secrets in ten places of events and transcripts are redacted everywhere on a real server.

They are not in the database, the logs, the pages, the websocket frames or the exports.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import uuid
import zipfile
from typing import Any

import httpx
import psycopg
import pytest
from reader import log_in
from websockets.sync.client import connect

from ingest.storage.payloads import unpack as unpack_payload

# Kinds of secrets that users paste into prompts. Each has a unique suffix to search for.
SECRETS = {
    "name": "sk-proj-Aa1Bb2Cc3Dd4Ee5Ff6Gg7Hh8Ii9Jj0Kk1Ll2",
    "data": "ghp_016C7kF5vN2mQ8rT4xZ9bL3wY6dJ1sHa0Pq2",
    "data key": "hunter2-data-Qz81",
    "data text": "password: hunter2-text-Qz82",
    "payload": "AKIAQYLPMN5HFIQR7XYA",
    "payload list": "xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx",
    "payload JSON text": "api_key=hunter2-json-Qz83Qz83",
    "tool arguments": "Authorization: Bearer hunter2tokenQz84Qz84Qz84",
    "metadata": "postgres://admin:hunter2-url-Qz85@db.internal/prod",
    "trace name": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.Qz86Qz86Qz86Qz86Qz86Qz86Qz86Qz8",
}
# The secret part of each.
HIDDEN = {
    place: text.split("password: ")[-1].split("api_key=")[-1].split("Bearer ")[-1] for place, text in SECRETS.items()
}
HIDDEN["metadata"] = "hunter2-url-Qz85"


def events(session: str) -> list[dict[str, Any]]:
    trace = f"trace-{session}"
    return [
        {
            "type": "trace",
            "trace_id": trace,
            "group_id": session,
            "name": f"run {SECRETS['trace name']}",
            "metadata": {"dsn": SECRETS["metadata"]},
        },
        {
            "type": "span",
            "trace_id": trace,
            "span_id": "a",
            "kind": "tool",
            "name": f"call {SECRETS['name']}",
            "started_at": "2026-01-01T00:00:00Z",
            "ended_at": "2026-01-01T00:00:01Z",
            "data": {"note": f"use {SECRETS['data']}", "password": SECRETS["data key"], "text": SECRETS["data text"]},
            "payload": {
                "prompt": f"the key {SECRETS['payload']} works",
                "messages": [{"role": "user", "content": SECRETS["payload list"] + " " + "x" * 300}],
                "raw": json.dumps({"nested": SECRETS["payload JSON text"]}),
                "tool_calls": [{"function": {"arguments": json.dumps({"header": SECRETS["tool arguments"]})}}],
            },
        },
    ]


def transcript() -> bytes:
    messages = [
        {"id": f"m{n}", "role": "user", "content": f"{place}: {text}", "meta": {"note": text}}
        for n, (place, text) in enumerate(SECRETS.items())
        if place != "data key"  # recognized only by its key
    ]
    messages.append({"id": "m99", "role": "assistant", "content": None, "password": SECRETS["data key"]})
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


@pytest.fixture(scope="module")
def sent(server) -> dict[str, Any]:
    """Send all secrets, and return the tail frames and responses that they caused."""
    session = f"secrets-{uuid.uuid4().hex[:8]}"
    admin = log_in(server, "admin")
    cookie = f"sessionid={admin.cookies['sessionid']}"
    url = f"{server.url.replace('http', 'ws', 1)}/ws/tail/?session={session}"
    with connect(url, origin=server.url, additional_headers={"Cookie": cookie}) as socket:
        frames = [socket.recv(timeout=30)]
        ingested = httpx.post(server.ingest_url, json={"batch": events(session)}, headers=server.headers, timeout=30)
        assert ingested.json()["rejected"] == []
        while not any(session in frame for frame in frames):
            frames.append(socket.recv(timeout=30))
    body = transcript()
    archived = httpx.post(
        f"{server.url}/ingest/transcripts",
        params={"session": session, "step": 1, "sha256": hashlib.sha256(body).hexdigest()},
        content=gzip.compress(body),
        headers={**server.headers, "Content-Encoding": "gzip", "Content-Type": "application/x-ndjson"},
        timeout=30,
    )
    assert archived.status_code == 200, archived.text
    return {"session": session, "frames": frames, "client": admin, "responses": [ingested.text, archived.text]}


def secrets_in(text: str) -> list[str]:
    return [place for place, secret in HIDDEN.items() if secret in text]


@pytest.mark.req("S-RED-1", "P-SEC-1")
def test_the_database_contains_no_secrets(server, sent):
    """This checks every row of every table, including compressed texts."""
    import zstandard

    unpack = zstandard.ZstdDecompressor()
    with psycopg.connect(server.database_url) as database:
        tables = database.execute(
            "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.relkind = 'r' AND n.nspname = 'public'"
        ).fetchall()
        assert len(tables) > 20
        for (table,) in tables:
            for (row,) in database.execute(f"SELECT t::text FROM {table} t"):
                assert secrets_in(row) == [], table
        packed = [
            row[0]
            for table in ("ingest_content", "ingest_message")
            for row in database.execute(f"SELECT body FROM {table}")
        ]
        assert packed
        for body in packed:
            assert secrets_in(unpack.decompress(body, max_output_size=1 << 26).decode()) == []
        for column in ("payload", "data"):
            values = database.execute(f"SELECT {column} FROM ingest_span WHERE {column} IS NOT NULL").fetchall()
            assert values
            for (stored,) in values:
                assert secrets_in(unpack_payload(stored).decode()) == []


@pytest.mark.req("S-RED-1", "P-SEC-1")
def test_responses_frames_and_logs_contain_no_secrets(server, sent):
    assert secrets_in(" ".join(sent["frames"]) + " ".join(sent["responses"])) == []
    logs = [server.log, *(path.read_text(errors="replace") for path in server.data_dir.glob("*.log"))]
    assert secrets_in(" ".join(logs)) == []


@pytest.mark.req("S-RED-1", "P-SEC-1")
def test_pages_and_the_api_contain_no_secrets(server, sent):
    """The client has all rights."""
    session, client = sent["session"], sent["client"]
    span = f"trace-{session}:a"
    (row,) = client.get("/api/transcripts/", params={"q": session}).json()["results"]
    pages = [
        "/",
        f"/sessions/{session}/",
        f"/sessions/{session}/inspector/?span={span}",
        f"/sessions/{session}/payload/?span={span}",
        f"/transcripts/{row['session_key']}/1/?show=text",
        "/audit/",
        f"/api/sessions/{session}/",
        f"/api/sessions/{session}/spans/",
        f"/api/sessions/{session}/tree/",
        f"/api/spans/{span}/?payload=1",
        f"/api/transcripts/{row['id']}/",
    ]
    for path in pages:
        response = client.get(path)
        assert response.status_code == 200, path
        assert secrets_in(response.text) == [], path
    assert "REDACTED" in client.get(f"/api/spans/{span}/?payload=1").text


@pytest.mark.req("S-RED-1", "P-SEC-1", "K-UI-3")
def test_exports_contain_no_secrets(server, sent):
    """This covers the JSONL, every file of the bundle, and the CSV of the audit log."""
    client = sent["client"]
    (row,) = client.get("/api/transcripts/", params={"q": sent["session"]}).json()["results"]
    exported = client.get(f"/api/transcripts/{row['id']}/download/").text
    assert secrets_in(exported) == [] and exported.count("<REDACTED>") >= len(SECRETS)
    archive = zipfile.ZipFile(io.BytesIO(client.get(f"/api/transcripts/{row['id']}/bundle/").content))
    for name in archive.namelist():
        assert secrets_in(archive.read(name).decode()) == [], name
    assert secrets_in(client.get("/audit/csv/").text) == []
