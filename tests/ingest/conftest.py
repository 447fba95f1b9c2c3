"""A client for the write path of a real server, and a look into its database."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.rows import dict_row


@dataclass
class Wire:
    """Post to a server and read what it stored."""

    url: str
    key: str
    http: httpx.Client
    database: psycopg.Connection[dict[str, Any]]

    def post(self, body: Any, *, path: str = "/ingest", key: str | None = None, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        given.setdefault("content-type", "application/json")
        given.setdefault("authorization", f"Bearer {self.key if key is None else key}")
        return self.http.post(self.url + path, content=content, headers=given)

    def send(self, *events: dict[str, Any]) -> dict[str, Any]:
        """Post events that must all be taken."""
        answer = self.post({"batch": list(events)})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        assert found["rejected"] == []
        return found

    def rows(self, query: str, *arguments: Any) -> list[dict[str, Any]]:
        return self.database.execute(query, arguments).fetchall()

    def session(self, session_id: str) -> dict[str, Any]:
        (found,) = self.rows("SELECT * FROM ingest_session WHERE session_id = %s", session_id)
        return found

    def spans(self, session_id: str) -> list[dict[str, Any]]:
        return self.rows(
            "SELECT s.* FROM ingest_span s JOIN ingest_session USING (session_key) WHERE session_id = %s ORDER BY seq",
            session_id,
        )


@pytest.fixture
def wire(server: Any) -> Iterator[Wire]:
    with (
        httpx.Client(timeout=30) as http,
        psycopg.connect(server.database_url, autocommit=True, row_factory=dict_row) as database,
    ):
        yield Wire(server.url, server.ingest_key, http, database)


@pytest.fixture
def name() -> str:
    """A session or trace of this test's own."""
    return f"t-{uuid.uuid4().hex[:12]}"
