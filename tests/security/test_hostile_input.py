"""Hostile requests: decompression bombs, injected names, forged log lines and guessed keys."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import time
import uuid
from typing import Any

import httpx
import psycopg
import pytest
import zstandard


def archive(server, body: bytes, **changes: Any) -> httpx.Response:
    params = {"session": f"hostile-{uuid.uuid4().hex[:8]}", "step": 1, "sha256": hashlib.sha256(body).hexdigest()}
    headers = {**server.headers, "Content-Type": "application/x-ndjson", **changes.pop("headers", {})}
    content = changes.pop("content", body)
    return httpx.post(
        f"{server.url}/ingest/transcripts", params={**params, **changes}, content=content, headers=headers, timeout=60
    )


@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_decompression_bomb_is_rejected(server, encoding: str):
    """96 MB in a small body give 413 quickly, and the server keeps working."""
    pack = gzip.compress if encoding == "gzip" else zstandard.ZstdCompressor().compress
    bomb = pack(b'{"role":"user","content":"' + b" " * (96 * 1024 * 1024) + b'"}\n')
    started = time.monotonic()
    response = archive(server, b"", content=bomb, headers={"Content-Encoding": encoding})
    assert response.status_code == 413
    assert time.monotonic() - started < 20
    assert httpx.get(f"{server.url}/healthz", timeout=10).status_code == 200


@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize("session", ["../../../etc/cron.d/x", "..\\..\\x", "/etc/passwd", "~root", "CON", "a/b/c"])
def test_a_session_id_cannot_inject_a_path(server, login_as, session: str):
    """It is stored as text, and the downloaded file has a safe name."""
    body = b'{"role":"user","content":"hello"}\n'
    response = archive(server, body, session=session)
    assert response.status_code in {200, 201}, response.text
    auditor = login_as("auditor")
    (row,) = [r for r in auditor.get("/api/transcripts/").json()["results"] if r["session"] == session]
    reason = f"{session}\r\nX-Injected: 1"
    download = auditor.get(f"/api/transcripts/{row['id']}/download/", params={"reason": reason})
    name = download.headers["content-disposition"].split('filename="')[1].split('"')[0]
    assert download.status_code == 200 and "/" not in name and "\\" not in name and not name.startswith(".")
    assert "x-injected" not in download.headers
    entry = auditor.get("/api/audit/", params={"action": "transcript.download"}).json()["results"][0]
    assert "\n" not in entry["target"] + entry["reason"] and "\r" not in entry["target"]


@pytest.mark.req("P-SEC-1")
def test_a_session_id_with_a_line_break_is_rejected(server):
    """Such an id would start a line or a header of its own wherever it is shown."""
    response = archive(server, b'{"role":"user","content":"hello"}\n', session="s\r\nX-Injected: 1")
    assert response.status_code == 400 and response.json()["rejected"][0]["path"] == "session", response.text


@pytest.mark.req("P-SEC-1")
def test_requests_cannot_forge_log_lines(server, login_as):
    """A line break in a header, an id or a name starts no new line in the server log or the audit log."""
    mark = uuid.uuid4().hex
    forged = f"{mark}\r\n2026-01-01 00:00:00 CRITICAL root forged {mark}"
    auditor = login_as("auditor")
    auditor.get("/api/audit/", headers={"User-Agent": f"agent {mark}", "X-Forwarded-For": f"1.2.3.4 {mark}"})
    auditor.get("/sessions/" + forged.replace("\r", "%0d").replace("\n", "%0a").replace(" ", "%20") + "/")
    archive(server, b"not json " + forged.encode() + b"\n", session=forged)
    httpx.post(
        server.ingest_url,
        json={"type": "span", "trace_id": forged, "span_id": forged},
        headers=server.headers,
        timeout=30,
    )
    assert not any(line.startswith("2026-01-01 00:00:00 CRITICAL") for line in server.log.splitlines())
    with psycopg.connect(server.database_url) as database:
        rows = database.execute("SELECT target, agent FROM viewer_auditentry").fetchall()
    assert not any("\n" in cell or "\r" in cell for row in rows for cell in row)


@pytest.mark.req("P-SEC-1")
def test_keys_are_looked_up_only_by_digest(server):
    """A partially correct guess takes no measurable extra time.

    Timings on a busy machine prove little. That no key is ever compared as text does.
    """
    from ingest import credentials
    from ingest.http import keys

    assert re.findall(r"WHERE (\S+) = %s", keys.FIND_KEY) == ["k.digest"]
    similar = server.ingest_key[:-1] + ("A" if server.ingest_key[-1] != "A" else "B")
    shared = sum(
        a == b for a, b in zip(credentials.digest(similar), credentials.digest(server.ingest_key), strict=True)
    )
    assert shared < 20, "a similar key must not have a similar digest"
    with psycopg.connect(server.database_url) as database:
        stored = database.execute("SELECT t::text FROM ingest_ingestkey t").fetchall()
    assert any(credentials.digest(server.ingest_key) in row for (row,) in stored)
    assert not any(server.ingest_key in row for (row,) in stored)


@pytest.mark.req("P-SEC-1")
def test_all_invalid_keys_get_the_same_response(server):
    """A wrong key, an almost correct key and an API token give the same error."""
    similar = server.ingest_key[:-1] + ("A" if server.ingest_key[-1] != "A" else "B")
    responses = [
        httpx.post(server.ingest_url, json=[], headers={"Authorization": f"Bearer {key}"}, timeout=30)
        for key in ("x", similar, "arip_" + "x" * 43, "ari_" + "x" * 43, "' OR 1=1 --")
    ]
    assert {response.status_code for response in responses} == {401}
    assert len({json.dumps(response.json(), sort_keys=True) for response in responses}) == 1
    assert not any(similar in response.text for response in responses)
