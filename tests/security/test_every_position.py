"""A secret in every string position that a sender can fill is nowhere on a real server.

The positions of events are derived from the event classes, so a new field is covered. Two projects send different
secrets. Every row of the database, page, address of the API, websocket and log line is read back.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

import httpx
import psycopg
import pytest
from compact.events import CATALOG, Event
from reader import log_in
from routes import ROUTES
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from ingest.models import session_key
from ingest.storage.payloads import unpack


@dataclasses.dataclass(frozen=True)
class Sent:
    """The secret of one project, and the stored id and key of the session that is named like it."""

    secret: str
    session: str
    key: str
    responses: str


def new_secret() -> str:
    return f"ghp_{hashlib.sha256(uuid.uuid4().bytes).hexdigest()[:36]}"


def value_of(hint: Any, secret: str) -> Any:
    """Return a value of a type with the secret in each of its texts and keys."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (NotRequired, Annotated):
        return value_of(arguments[0], secret)
    if origin in (Union, types.UnionType):
        return value_of(arguments[0], secret)
    if is_typeddict(hint):
        return {key: value_of(part, secret) for key, part in get_type_hints(hint, include_extras=True).items()}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {f"{secret} {arguments[0].__name__}": value_of(arguments[1], secret)}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return [value_of(arguments[0], secret)]
    if hint in (int, float, bool):
        return 7
    if hint is str or origin is Literal:
        return secret
    return {secret: [secret, {"name": secret, "id": secret, "rule": secret}]}


def event_of(event: type[Event], secret: str) -> dict[str, Any]:
    hints = get_type_hints(event, include_extras=True)
    values = {field.name: value_of(hints[field.name], secret) for field in dataclasses.fields(event)}
    private = set(event.private_fields())
    return {
        "event": event.name,
        "trace_id": secret,
        "span_id": f"{event.name} {secret}",
        "parent_id": f"compact.check {secret}",
        "session_id": secret,
        "status": "ok",
        "ts": "2026-01-01T00:00:01Z",
        "properties": {name: value for name, value in values.items() if name not in private},
        "payload": {secret: secret, **{name: value for name, value in values.items() if name in private}},
    }


def spans(secret: str) -> list[dict[str, Any]]:
    base = {"type": "span", "trace_id": secret, "session_id": secret, "name": secret, "payload": {"input": secret}}
    data = {"model": secret, "provider": secret, "usage": {"input_tokens": 5, secret: 1}, "redactions": {secret: 1}}
    times = {"started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:00:01Z"}
    kinds = ("generation", "tool", "agent", "handoff", "retrieval", secret, f"compact.{secret}")
    metadata = {"user.id": secret, "tags": [secret], "service.name": secret, secret: secret}
    trace = {"type": "trace", "trace_id": secret, "group_id": secret, "name": secret, "metadata": metadata}
    return [
        trace,
        *(
            {**base, **times, "span_id": f"{kind} {secret}", "kind": kind, "data": {**data, "name": secret}}
            for kind in kinds
        ),
    ]


def otlp(secret: str) -> dict[str, Any]:
    names = ("session.id", "gen_ai.request.model", "gen_ai.provider.name", "user.id", "gen_ai.input.messages", secret)
    attributes = [{"key": name, "value": {"stringValue": secret}} for name in names]
    events = [{"name": name, "attributes": attributes} for name in (secret, f"compact.{secret}", "exception")]
    span = {
        "traceId": hashlib.sha256(secret.encode()).hexdigest()[:32],
        "spanId": "00f067aa0ba902b7",
        "name": secret,
        "startTimeUnixNano": "1767225600000000000",
        "endTimeUnixNano": "1767225601000000000",
        "attributes": attributes,
        "status": {"code": 2, "message": secret},
        "events": [{**event, "timeUnixNano": "1767225600000000000"} for event in events],
        "links": [{"traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "spanId": "00", "attributes": attributes}],
        "traceState": secret,
    }
    scope_spans = {"scope": {"name": secret, "version": secret, "attributes": attributes}, "spans": [span]}
    resource = {"attributes": [*attributes, {"key": "service.name", "value": {"stringValue": secret}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope_spans], "schemaUrl": secret}]}


def hidden_sessions(server: Any, project_id: int) -> set[str]:
    """Return the names of the sessions of a project whose ids held a secret."""
    with psycopg.connect(server.database_url) as database:
        rows = database.execute(
            "SELECT session_id, session_key FROM ingest_session WHERE session_id LIKE 'redacted_%'"
        ).fetchall()
    return {name for name, stored_key in rows if stored_key == session_key(project_id, name)}


def send(server: Any, key: str, project_id: int) -> Sent:
    secret = new_secret()
    headers = {"Authorization": f"Bearer {key}", "User-Agent": secret, "X-Request-Id": secret, "Referer": secret}
    batch = [*spans(secret), *(event_of(event, secret) for event in CATALOG)]
    parameters = {"note": secret}
    earlier = hidden_sessions(server, project_id)  # Other tests send secrets to the same server.
    with httpx.Client(headers=headers, params=parameters, timeout=60) as client:
        ingested = client.post(server.ingest_url, json={"batch": batch})
        assert ingested.json()["rejected"] == [] and ingested.json()["replaced_ids"] > len(CATALOG)
        traced = client.post(f"{server.url}/v1/traces", json=otlp(secret))
        assert traced.status_code == 200, traced.text
        rejected = client.post(server.ingest_url, content=f'{{"type": "{secret}"'.encode())
        assert rejected.status_code == 400
        line = {"id": secret, "role": "user", "name": secret, "content": secret, secret: {secret: secret}}
        body = json.dumps(line).encode() + b"\n"
        query = {"session": secret, "step": "1", "sha256": hashlib.sha256(body).hexdigest(), "created_at": ""}
        archived = client.post(f"{server.url}/ingest/transcripts", params=query, content=body)
        assert archived.status_code == 200, archived.text
    (session,) = hidden_sessions(server, project_id) - earlier
    return Sent(secret, session, str(session_key(project_id, session)), ingested.text + traced.text)


@pytest.fixture(scope="module")
def sent(server: Any, other_project: Any) -> list[Sent]:
    keys = {"ours": server.ingest_key, "theirs": other_project.key}
    projects = []
    with psycopg.connect(server.database_url) as database:
        for key in keys.values():
            digest = hashlib.sha256(key.encode()).hexdigest()
            row = database.execute("SELECT project_id FROM ingest_ingestkey WHERE digest = %s", [digest]).fetchone()
            assert row
            projects.append((key, row[0]))
    return [send(server, key, project_id) for key, project_id in projects]


def has_secret(text: str, sent: list[Sent]) -> bool:
    return any(one.secret.lower() in text.lower() for one in sent)


@pytest.mark.req("S-RED-1", "P-SEC-1")
def test_no_row_of_the_database_has_the_secret(server: Any, sent: list[Sent]) -> None:
    """Backups are dumps of these rows. Compressed columns are unpacked."""
    import zstandard

    unpack_body = zstandard.ZstdDecompressor()
    with psycopg.connect(server.database_url) as database:
        tables = database.execute(
            "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.relkind = 'r' AND n.nspname = 'public'"
        ).fetchall()
        leaks = {
            table
            for (table,) in tables
            for (row,) in database.execute(f"SELECT t::text FROM {table} t")
            if has_secret(row, sent)
        }
        assert leaks == set()
        columns = database.execute(
            "SELECT table_name, column_name FROM information_schema.columns WHERE data_type = 'bytea'"
            " AND (table_name, column_name) IN (('ingest_span', 'data'), ('ingest_span', 'payload'),"
            " ('ingest_content', 'body'), ('ingest_message', 'body'))"
        ).fetchall()
        assert len(columns) == 4
        for table, column in columns:
            for (stored,) in database.execute(f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL"):
                is_body = column == "body"
                text = unpack_body.decompress(stored, max_output_size=1 << 26) if is_body else unpack(stored)
                assert not has_secret(text.decode(), sent), (table, column)


@pytest.mark.req("S-RED-1", "P-SEC-1")
def test_no_page_socket_or_log_has_the_secret(server: Any, sent: list[Sent]) -> None:
    """The reader has all rights in both projects."""
    admin = log_in(server, "admin")
    leaks = []
    for one in sent:
        listed = admin.get(f"/api/sessions/{one.session}/spans/?limit=1000").json()["results"]
        assert len(listed) > len(CATALOG)
        span = f"{listed[0]['trace_id']}:{listed[0]['span_id']}"
        names = {"session": one.session, "key": one.key, "span": span}
        paths = [
            route.path.format(**names) for name, route in ROUTES.items() if "GET" in route.methods and name != "message"
        ]
        paths += [f"/api/spans/{item['trace_id']}:{item['span_id']}/?payload=1" for item in listed]
        paths += [f"/sessions/{one.session}/compactions/1/ledger.json", "/metrics", "/no-such-page/"]
        for path in paths:
            response = admin.get(path)
            assert response.status_code < 500, path
            if has_secret(response.text + str(response.headers), sent):
                leaks.append(path)
        cookie = {"Cookie": f"sessionid={admin.cookies['sessionid']}"}
        for path in (
            f"/ws/sessions/{one.session}/?after=0",
            "/ws/sessions/?after=0",
            f"/ws/tail/?session={one.session}&after=0",
        ):
            frames = []
            try:
                with connect(
                    f"{server.url.replace('http', 'ws', 1)}{path}",
                    origin=server.url,
                    additional_headers=cookie,
                    max_size=None,
                ) as socket:
                    while True:
                        frames.append(str(socket.recv(timeout=0.5)))
            except (TimeoutError, ConnectionClosed):
                assert frames, path
            if has_secret("".join(frames), sent):
                leaks.append(path)
    assert leaks == []
    logs = [server.log, *(path.read_text(errors="replace") for path in server.data_dir.glob("*.log"))]
    assert not has_secret(" ".join(logs), sent) and not has_secret(" ".join(one.responses for one in sent), sent)
