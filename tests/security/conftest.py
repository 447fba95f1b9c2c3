"""A second project on the shared server, and people who are signed in to it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import psycopg
import pytest


def sign_in_http(server: Any, person: str) -> httpx.Client:
    client = httpx.Client(base_url=server.url, follow_redirects=True, timeout=30)
    client.get("/login/")
    data = {**server.logins[person], "csrfmiddlewaretoken": client.cookies["csrftoken"]}
    assert client.post("/login/", data=data, headers={"Referer": server.url}).status_code == 200
    return client


@pytest.fixture(scope="module")
def as_person(server) -> Iterator[Callable[[str], httpx.Client]]:
    """`as_person("auditor")`: an HTTP client that is signed in, one per kind of person."""
    clients: dict[str, httpx.Client] = {}

    def client(kind: str) -> httpx.Client:
        if kind not in clients:
            clients[kind] = sign_in_http(server, kind)
        return clients[kind]

    yield client
    for open_client in clients.values():
        open_client.close()


@dataclass(frozen=True)
class Elsewhere:
    """Another project: its key, and one session in it."""

    key: str
    session: str
    session_key: str


@pytest.fixture(scope="module")
def elsewhere(server) -> Elsewhere:
    """A project in which none of the server's people but the superuser may read."""
    key = "ari_" + hashlib.sha256(server.url.encode()).hexdigest()
    with psycopg.connect(server.database_url, autocommit=True) as database:
        database.execute(
            "INSERT INTO ingest_project (slug, name, created_at, legal_hold)"
            " VALUES ('elsewhere', 'Elsewhere', now(), false) ON CONFLICT DO NOTHING"
        )
        database.execute(
            "INSERT INTO ingest_ingestkey (project_id, label, digest, hint, created_at)"
            " SELECT id, 'k', %s, 'ari_', now() FROM ingest_project WHERE slug = 'elsewhere' ON CONFLICT DO NOTHING",
            [hashlib.sha256(key.encode()).hexdigest()],
        )
    event = {"type": "span", "trace_id": "t-elsewhere", "span_id": "a", "name": "elsewhere-only", "kind": "tool"}
    body = json.dumps({"batch": [{**event, "data": {"session_id": "elsewhere-session"}}]})
    answer = httpx.post(server.ingest_url, content=body, headers={"Authorization": f"Bearer {key}"}, timeout=30)
    assert answer.status_code == 200, answer.text
    with psycopg.connect(server.database_url) as database:
        found = database.execute(
            "SELECT session_key FROM ingest_session WHERE session_id = 'elsewhere-session'"
        ).fetchone()
    assert found
    return Elsewhere(key, "elsewhere-session", str(found[0]))
