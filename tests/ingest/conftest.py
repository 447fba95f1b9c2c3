"""A client of a real server's ingest endpoints, with access to its database."""

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

from ingest.storage.payloads import decode, decode_data


@dataclass
class Wire:
    """Post to a server and read the rows it stored."""

    url: str
    key: str
    http: httpx.Client
    database: psycopg.Connection[dict[str, Any]]

    def post(self, body: Any, *, path: str = "/ingest", key: str | None = None, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        all_headers = {name.replace("_", "-"): value for name, value in headers.items()}
        all_headers.setdefault("content-type", "application/json")
        all_headers.setdefault("authorization", f"Bearer {self.key if key is None else key}")
        return self.http.post(self.url + path, content=content, headers=all_headers)

    def send(self, *events: dict[str, Any]) -> dict[str, Any]:
        """Post events and check that all of them are accepted."""
        response = self.post({"batch": list(events)})
        assert response.status_code == 200, response.text
        body: dict[str, Any] = response.json()
        assert body["rejected"] == []
        return body

    def rows(self, query: str, *arguments: Any) -> list[dict[str, Any]]:
        """Return the rows of a query. Those of spans have their `data` decoded."""
        rows = self.database.execute(query, arguments).fetchall()
        return [{**row, "data": decode_data(row["data"])} if row.get("data") else row for row in rows]

    def session(self, session_id: str) -> dict[str, Any]:
        (row,) = self.rows("SELECT * FROM ingest_session WHERE session_id = %s", session_id)
        return row

    def spans(self, session_id: str) -> list[dict[str, Any]]:
        """Return the spans of a session. `payload` is decoded."""
        rows = self.rows(
            "SELECT s.* FROM ingest_span s JOIN ingest_session USING (session_key) WHERE session_id = %s ORDER BY seq",
            session_id,
        )
        return [{**row, "payload": decode(row["payload"])} for row in rows]


@pytest.fixture
def wire(server: Any) -> Iterator[Wire]:
    with (
        httpx.Client(timeout=30) as http,
        psycopg.connect(server.database_url, autocommit=True, row_factory=dict_row) as database,
    ):
        yield Wire(server.url, server.ingest_key, http, database)


@pytest.fixture
def name() -> str:
    """A session or trace id that only this test uses."""
    return f"t-{uuid.uuid4().hex[:12]}"
