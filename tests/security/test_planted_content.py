"""Content that agents plant in any field reaches only people with `view_payload`, at every reading address.

Two projects contain the same fields with different texts. Each role reads every address that it may open, and every
websocket. The texts are planted in the attribute names of the common tracing conventions, in names, status messages,
exceptions, compaction events, summaries and transcripts, through the JSON endpoint, through OTLP, and directly in the
database, where older versions of the server stored them.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from routes import ROUTES
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from ingest.models import session_key
from viewer.accounts.access import Right
from viewer.accounts.roles import ROLES

ATTRIBUTES = (Path(__file__).parents[1] / "fixtures" / "content_attributes.txt").read_text().split()
assert len(ATTRIBUTES) >= 80
COMMON_NAMES = {"gen_ai.request.model": "gpt-5", "gen_ai.usage.input_tokens": 1200, "gen_ai.tool.name": "read_file"}


@dataclass(frozen=True)
class Planted:
    """A session whose fields contain a word that exists nowhere else."""

    session: str
    key: str  # the session key
    word: str

    def text(self, place: str) -> str:
        return f"please forward the {self.word} of Jane Doe ({place}) to legal"


def json_events(planted: Planted) -> list[dict[str, Any]]:
    base = {"type": "span", "trace_id": f"trace-{planted.session}", "started_at": "2026-01-01T00:00:00Z"}
    text = planted.text
    data = {name: text(name) for name in ATTRIBUTES} | COMMON_NAMES
    nested = {"deep": {"list": [text("list"), {text("key"): 1}]}, text("top key"): 1, "number": 5}
    ended = {"ended_at": "2026-01-01T00:00:01Z"}
    return [
        {"type": "trace", "trace_id": base["trace_id"], "group_id": planted.session, "name": text("trace name")},
        {**base, **ended, "span_id": "g", "kind": "generation", "name": text("name"), "data": data},
        {**base, **ended, "span_id": "t", "kind": "tool", "name": "read_file", "data": data, "payload": nested},
        {**base, **ended, "span_id": "n", "kind": text("kind")[:90], "data": nested},
        {**base, **ended, "span_id": "e", "kind": "agent", "status": "error", "data": {"error": text("error")}},
    ]


def compaction_events(planted: Planted) -> list[dict[str, Any]]:
    text = planted.text
    base = {"type": "span", "trace_id": f"trace-{planted.session}", "status": "ok"}
    times = {"started_at": "2026-01-01T00:01:00Z", "ended_at": "2026-01-01T00:01:02Z"}

    def event(span_id: str, name: str, data: dict[str, Any], payload: Any = None) -> dict[str, Any]:
        parent = {} if span_id == "c" else {"parent_id": "c"}
        return {**base, **times, **parent, "span_id": span_id, "event": name, "properties": data, "payload": payload}

    sizes = {"tokens_before": 900, "tokens_after": 300, "step": 1}
    row = {"id": "m0", "hash": "0" * 64, "role": "user", "tokens": 9, "fate": "summarized", "rule": "older"}
    return [
        event("c", "compact.check", {"turn": 1, "model": "gpt-5", "trigger": "manual", "max_tokens": 1000, **sizes}),
        event(
            "d",
            "compact.trigger_decision",
            {"triggered": True, "reason": text("reason"), "note": text("note"), "t_est": 900, "max_tokens": 1000},
        ),
        event(
            "s",
            "compact.summary_created",
            {"version": 1, "step": 1, "summary_tokens": 20, "preview": text("preview")},
            {"summary": text("summary"), "structured": {"goals": [{"text": text("goal"), "sources": ["m0"]}]}},
        ),
        event(
            "r",
            "compact.retention",
            {"retention_pct": 0.5, "by_kind": {"names": {"found": 2, "kept": 1, "lost": 1}}},
            {"lost": [{"kind": "names", "text": text("lost"), "source_ids": ["m0"]}], "restored": []},
        ),
        event("x", "compact.error", {"error_type": "TimeoutError", "message": text("error"), "fallback": "brief"}),
        event("w", "compact.warning", {"code": "constraint_lost", "severity": "high", "message": text("warning")}),
        event(
            "q",
            "compact.recall",
            {"turn": 1, "limit": 5, "max_tokens": 2000, "passage_count": 1, "query": text("query among the figures")},
            {"query": text("query"), "results": [{"message_id": "m0", "role": "user", "text": text("passage")}]},
        ),
        event("u", "compact.unknown_event", {"anything": text("unknown event")}),
        event(
            "p",
            "compact.pruned_messages",
            {"pruned_count": 1, "fates": {"summarized": 1}, **sizes},
            {"ledger": [{**row, "content": text("ledger")}], "after": [{**row, "text": text("after")}]},
        ),
    ]


def otlp_request(planted: Planted) -> dict[str, Any]:
    def attributes(values: dict[str, str]) -> list[dict[str, Any]]:
        return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]

    span = {
        "traceId": hashlib.sha256(planted.session.encode()).hexdigest()[:32],
        "spanId": "00f067aa0ba902b7",
        "name": planted.text("OTLP name"),
        "startTimeUnixNano": "1767225600000000000",
        "endTimeUnixNano": "1767225601000000000",
        "attributes": attributes({name: planted.text(name) for name in ATTRIBUTES} | {"session.id": planted.session}),
        "status": {"code": 2, "message": planted.text("status message")},
        "events": [
            {"name": "exception", "attributes": attributes({"exception.message": planted.text("exception")})},
            {"name": "note", "attributes": attributes({"body": planted.text("event body")})},
        ],
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def store_directly(server, planted: Planted) -> None:
    """Insert a span as an older server stored it, with texts in the data."""
    data = json.dumps({name: planted.text(name) for name in ATTRIBUTES})
    with psycopg.connect(server.database_url, autocommit=True) as database:
        database.execute(
            "INSERT INTO ingest_span (session_key, session_day, trace_id, span_id, cell, seq, kind, name, status,"
            " started_at, ended_at, data) SELECT session_key, day, %s, 'old', cell, last_seq,"
            " 'generation', %s, 'ok', now(), now(), %s FROM ingest_session WHERE session_key = %s",
            [f"trace-{planted.session}", planted.text("old name"), b"\x01" + data.encode(), planted.key],
        )


def plant(server, key: str, project_id: int) -> Planted:
    session = f"planted-{uuid.uuid4().hex[:8]}"
    planted = Planted(session, str(session_key(project_id, session)), f"zebra{uuid.uuid4().hex[:10]}")
    headers = {"Authorization": f"Bearer {key}"}
    batch = json_events(planted) + compaction_events(planted)
    response = httpx.post(server.ingest_url, json={"batch": batch}, headers=headers, timeout=30)
    assert response.json()["rejected"] == [], response.text
    otlp = httpx.post(f"{server.url}/v1/traces", json=otlp_request(planted), headers=headers, timeout=30)
    assert otlp.status_code == 200, otlp.text
    message = {"id": "m0", "role": "user", "content": planted.text("transcript")}
    body = json.dumps(message).encode() + b"\n"
    archived = httpx.post(
        f"{server.url}/ingest/transcripts",
        params={"session": session, "step": 1, "sha256": hashlib.sha256(body).hexdigest()},
        content=gzip.compress(body),
        headers={**headers, "Content-Encoding": "gzip", "Content-Type": "application/x-ndjson"},
        timeout=30,
    )
    assert archived.status_code == 200, archived.text
    store_directly(server, planted)
    return planted


@pytest.fixture(scope="module")
def ours(server) -> Planted:
    with psycopg.connect(server.database_url) as database:
        row = database.execute(
            "SELECT project_id FROM ingest_ingestkey WHERE digest = %s",
            [hashlib.sha256(server.ingest_key.encode()).hexdigest()],
        ).fetchone()
    assert row
    return plant(server, server.ingest_key, row[0])


@pytest.fixture(scope="module")
def theirs(server, other_project) -> Planted:
    with psycopg.connect(server.database_url) as database:
        row = database.execute("SELECT id FROM ingest_project WHERE slug = 'elsewhere'").fetchone()
    assert row
    return plant(server, other_project.key, row[0])


def addresses(planted: Planted) -> Iterator[str]:
    """Every address that can be read, with the queries that change what it returns."""
    names = {"session": planted.session, "key": planted.key}
    spans = [f"trace-{planted.session}:{span}" for span in (*"gtnecdsrxwup", "old")]
    spans.append(f"{hashlib.sha256(planted.session.encode()).hexdigest()[:32]}:00f067aa0ba902b7")
    for name, route in ROUTES.items():
        if "GET" not in route.methods or name == "message":
            continue
        for span in spans if "/api/spans/" in route.path or name == "inspector" else spans[:1]:
            yield route.path.format(span=span, **names)
        if route.has_object and "/payload/" not in route.path:
            path = route.path.format(span=spans[0], **names).split("?")[0]
            yield f"{path}?span={spans[0]}&payload=1&show=text&q={planted.word}"
    yield f"/compare/?a={planted.session}&an=1&b={planted.key}&bn=1"
    yield f"/sessions/{planted.session}/compactions/1/ledger.json"
    yield f"/api/sessions/{planted.session}/spans/?limit=1000"
    yield f"/?q={planted.word}"
    yield f"/api/sessions/?q={planted.word}"


def read(client: httpx.Client, path: str, word: str) -> str:
    """Return the whole response without the part of it that repeats the request."""
    response = client.get(path)
    assert response.status_code < 500, f"{path}: {response.status_code}"
    text = response.text + str(response.headers)
    for repeated in (f"q={word}", f'value="{word}"', f"<q><bdi>{word}</bdi></q>"):
        text = text.replace(repeated, "")
    return text


def frames(server, client: httpx.Client, path: str) -> str:
    """Return what a websocket sends from the beginning of the project, until it is quiet."""
    url = f"{server.url.replace('http', 'ws', 1)}{path}"
    received = []
    headers = {"Cookie": f"sessionid={client.cookies['sessionid']}"}
    try:
        with connect(url, origin=server.url, additional_headers=headers, max_size=None) as socket:
            while True:
                received.append(str(socket.recv(timeout=0.5)))
    except (TimeoutError, ConnectionClosed):
        return "".join(received)


@pytest.mark.req("P-SEC-1", "A-PRI-2")
@pytest.mark.parametrize("role", ["operator", "developer", "auditor", "admin"])
def test_no_address_shows_planted_content_without_the_right(server, login_as, ours, theirs, role: str):
    """Our content needs `view_payload`. The other project's content is invisible to all but the superuser."""
    client = login_as(role)
    may_payload = Right.PAYLOAD in ROLES.get(f"{role}s", frozenset(Right))
    texts = {path: read(client, path, ours.word) for path in addresses(ours)}
    texts |= {path: read(client, path, theirs.word) for path in addresses(theirs)}
    sockets = [f"/ws/sessions/{planted.session}/?after=0" for planted in (ours, theirs)]
    for path in (*sockets, "/ws/sessions/?after=0", f"/ws/tail/?session={ours.session}&after=0"):
        texts[path] = frames(server, client, path)
    leaks = [path for path, text in texts.items() if ours.word in text]
    if may_payload:
        assert any("/api/spans/" in path for path in leaks) and any("/compactions/1/" in path for path in leaks)
    else:
        assert leaks == []
    foreign = [path for path, text in texts.items() if theirs.word in text]
    assert bool(foreign) == (role == "admin"), foreign


@pytest.mark.req("P-SEC-1")
def test_hidden_fields_are_named_and_metadata_stays(server, login_as, ours):
    """Nothing is missing: each hidden field has its name, and operators still see models, tools and counts."""
    client = login_as("operator")
    spans = client.get(f"/api/sessions/{ours.session}/spans/?limit=1000").json()["results"]
    tool = next(span for span in spans if span["span_id"] == "t")
    assert tool["name"] == "read_file" and tool["data"].items() >= COMMON_NAMES.items()
    full = client.get(f"/api/spans/trace-{ours.session}:t/").json()
    shown = set(full["data"]) | set(full["payload"])
    moved = {"input", "output"}  # what OTLP attributes of messages become
    assert {name for name in ATTRIBUTES if "messages." not in name} <= shown | moved
    hidden = {name.split(".", 1)[1] for name in full["hidden"]}
    assert set(ATTRIBUTES) <= hidden
    old = client.get(f"/api/spans/trace-{ours.session}:old/").json()
    assert old["name"] == "[hidden]" and set(old["data"].values()) == {"[hidden]"}
    page = client.get(f"/sessions/{ours.session}/compactions/1/").text
    assert "Hidden. You don't have permission to view payloads." in page and "The lost facts are hidden." in page


@pytest.mark.req("P-SEC-1", "A-PRI-2")
def test_live_frames_obey_the_same_rule(server, login_as, ours):
    """An operator and a developer follow the same session. Only the developer's frames contain the text."""
    received = {}
    sockets = {}
    for role in ("operator", "developer"):
        headers = {"Cookie": f"sessionid={login_as(role).cookies['sessionid']}"}
        url = f"{server.url.replace('http', 'ws', 1)}/ws/sessions/{ours.session}/"
        sockets[role] = connect(url, origin=server.url, additional_headers=headers)
        json.loads(sockets[role].recv(timeout=20))
    note = {
        "triggered": True,
        "note": ours.text("live note"),
        "reason": ours.text("live"),
        "t_est": 9,
        "max_tokens": 10,
    }
    batch = [
        {
            "type": "span",
            "trace_id": f"trace-{ours.session}",
            "span_id": f"live-{time.time_ns()}",
            "name": ours.text("live"),
        },
        {
            "event": "compact.trigger_decision",
            "trace_id": f"trace-{ours.session}",
            "span_id": "live-d",
            "properties": note,
        },
    ]
    sent = httpx.post(server.ingest_url, json={"batch": batch}, headers=server.headers, timeout=30)
    assert sent.json()["rejected"] == []
    for role, socket in sockets.items():
        with socket:
            frame = socket.recv(timeout=20)
            while "live-d" not in frame:
                frame = socket.recv(timeout=20)
            received[role] = frame
    assert ours.word not in received["operator"] and "[hidden]" in received["operator"]
    assert ours.word in received["developer"]
