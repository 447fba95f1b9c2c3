"""Logged-in HTTP clients, and a second project on the shared server."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx
import psycopg
import pytest
from reader import log_in


@pytest.fixture(scope="module")
def login_as(server) -> Iterator[Callable[[str], httpx.Client]]:
    """Return an HTTP client that is logged in with a role, such as `login_as("auditor")`."""
    clients: dict[str, httpx.Client] = {}

    def client(role: str) -> httpx.Client:
        if role not in clients:
            clients[role] = log_in(server, role)
        return clients[role]

    yield client
    for open_client in clients.values():
        open_client.close()


@dataclass(frozen=True)
class OtherProject:
    """Another project with its ingest key and one session."""

    key: str
    session: str
    session_key: str


@pytest.fixture(scope="module")
def other_project(server) -> OtherProject:
    """A project that only the superuser may read."""
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
    response = httpx.post(server.ingest_url, content=body, headers={"Authorization": f"Bearer {key}"}, timeout=30)
    assert response.status_code == 200, response.text
    with psycopg.connect(server.database_url) as database:
        row = database.execute(
            "SELECT session_key FROM ingest_session WHERE session_id = 'elsewhere-session'"
        ).fetchone()
    assert row
    return OtherProject(key, "elsewhere-session", str(row[0]))
