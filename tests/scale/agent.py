"""Send events over HTTP and read the stored spans."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import psycopg
from live_server import Server


def span(session_id: str, span_id: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "span",
        "trace_id": f"trace-{session_id}",
        "span_id": span_id,
        "kind": "tool",
        "name": "read_file",
        "started_at": 1_790_000_000.0,
        "ended_at": 1_790_000_001.0,
        "data": {"session_id": session_id},
        **more,
    }


def post_events(server: Server, events: list[dict[str, Any]], *, timeout_s: float = 20) -> int:
    """Post the events once and return the number that the server acknowledged."""
    request = urllib.request.Request(
        server.ingest_url,
        data=json.dumps({"batch": events}).encode(),
        headers={**server.headers, "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=timeout_s) as answer:
        return int(json.load(answer)["count"])


def stored_spans(database_url: str) -> list[tuple[str, str, int]]:
    """Return the trace id, span id and sequence number of every span."""
    with psycopg.connect(database_url) as connection:
        return connection.execute("SELECT trace_id, span_id, seq FROM ingest_span").fetchall()
