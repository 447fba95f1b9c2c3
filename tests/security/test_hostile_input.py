"""What somebody would send to get in, to stay in, or to bring the server down."""

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
def test_a_bomb_is_refused_while_it_unpacks(server, encoding: str):
    """A hundred megabytes of nothing in a hundred kilobytes: 413, quickly, and the server goes on."""
    pack = gzip.compress if encoding == "gzip" else zstandard.ZstdCompressor().compress
    bomb = pack(b'{"role":"user","content":"' + b" " * (96 * 1024 * 1024) + b'"}\n')
    began = time.monotonic()
    answer = archive(server, b"", content=bomb, headers={"Content-Encoding": encoding})
    assert answer.status_code == 413
    assert time.monotonic() - began < 20
    assert httpx.get(f"{server.url}/healthz", timeout=10).status_code == 200


@pytest.mark.req("P-SEC-1")
@pytest.mark.parametrize(
    "session", ["../../../etc/cron.d/x", "..\\..\\x", "/etc/passwd", "~root", "s\r\nX-Injected: 1", "CON", "a/b/c"]
)
def test_a_session_id_never_becomes_a_path_or_a_header(server, as_person, session: str):
    """It is stored as text, found again, and its file has a harmless name."""
    body = b'{"role":"user","content":"hello"}\n'
    answer = archive(server, body, session=session)
    assert answer.status_code in {200, 201}, answer.text
    auditor = as_person("auditor")
    (row,) = [r for r in auditor.get("/api/transcripts/").json()["results"] if r["session"] == session]
    download = auditor.get(f"/api/transcripts/{row['id']}/download/", params={"reason": session})
    name = download.headers["content-disposition"].split('filename="')[1].split('"')[0]
    assert download.status_code == 200 and "/" not in name and "\\" not in name and not name.startswith(".")
    assert "x-injected" not in download.headers
    line = auditor.get("/api/audit/", params={"action": "transcript.download"}).json()["results"][0]
    assert "\n" not in line["target"] + line["reason"] and "\r" not in line["target"]


@pytest.mark.req("P-SEC-1")
def test_nothing_that_is_sent_writes_lines_into_the_log(server, as_person):
    """A line break in a header, an id or a name does not begin a line of the server's log or of the audit log."""
    mark = uuid.uuid4().hex
    forged = f"{mark}\r\n2026-01-01 00:00:00 CRITICAL root forged {mark}"
    person = as_person("auditor")
    person.get("/api/audit/", headers={"User-Agent": f"agent {mark}", "X-Forwarded-For": f"1.2.3.4 {mark}"})
    person.get("/sessions/" + forged.replace("\r", "%0d").replace("\n", "%0a").replace(" ", "%20") + "/")
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
def test_keys_and_tokens_are_looked_up_by_digest_alone(server):
    """How much of a guess is right can change nothing that could be measured.

    Timing a database on a busy machine proves little; that no text of a key is ever compared proves it.
    """
    from ingest import credentials
    from ingest.http import keys

    assert re.findall(r"WHERE (.*?) = %s", keys.FIND_KEY, re.DOTALL) == ["k.digest"]
    near = server.ingest_key[:-1] + ("A" if server.ingest_key[-1] != "A" else "B")
    shared = sum(a == b for a, b in zip(credentials.digest(near), credentials.digest(server.ingest_key), strict=True))
    assert shared < 20, "nearly right shares no more of the digest than any other guess"
    with psycopg.connect(server.database_url) as database:
        stored = database.execute("SELECT t::text FROM ingest_ingestkey t").fetchall()
    assert any(credentials.digest(server.ingest_key) in row for (row,) in stored)
    assert not any(server.ingest_key in row for (row,) in stored)


@pytest.mark.req("P-SEC-1")
def test_wrong_keys_are_told_nothing_apart(server):
    """No key, a wrong one, one that is nearly right and a reader's token get the same refusal."""
    near = server.ingest_key[:-1] + ("A" if server.ingest_key[-1] != "A" else "B")
    answers = [
        httpx.post(server.ingest_url, json=[], headers={"Authorization": f"Bearer {key}"}, timeout=30)
        for key in ("x", near, "arip_" + "x" * 43, "ari_" + "x" * 43, "' OR 1=1 --")
    ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({json.dumps(answer.json(), sort_keys=True) for answer in answers}) == 1
    assert not any(near in answer.text for answer in answers)
