"""A real server stores each event of child processes once, however often it was sent."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import psycopg
import pytest
from live_server import Server

PROGRAM = """
import os, signal, sys
from compact import AriadneExporter
url, key, spool, prefix = sys.argv[1:]
exporter = AriadneExporter(url, key, spool_dir=spool)
children = []
for number in range(6):
    pid = os.fork()
    if pid == 0:
        session = f"{prefix}-{number}"
        for n in range(200):
            ids = {"session_id": session, "trace_id": session, "span_id": f"{session}-{n}"}
            exporter.emit({"event": "compact.warning", "ts": "2026-11-16T04:00:00Z", "properties": {}, **ids})
        if number % 2:
            exporter.flush(10)  # Everything is sent, and again by the parent if the child ends before it knows.
        os.kill(os.getpid(), signal.SIGKILL) if number < 3 else os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
sys.exit(0 if exporter.flush(60) else 1)
"""


@pytest.mark.req("A-FLT-2")
def test_events_of_killed_children_are_stored_once(server: Server, tmp_path: Path) -> None:
    """Nothing is lost and nothing is counted twice, in the spans and in the figures of the sessions."""
    prefix = f"killed-{uuid.uuid4().hex[:8]}"
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    arguments = [server.ingest_url, server.ingest_key, str(tmp_path), prefix]
    result = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    query = (
        "SELECT session_id, count(s.span_id), min(span_count), max(span_count) FROM ingest_session "
        "LEFT JOIN ingest_span s USING (session_key) WHERE session_id LIKE %s GROUP BY session_id ORDER BY session_id"
    )
    with psycopg.connect(server.database_url) as connection:
        rows = connection.execute(query, (f"{prefix}-%",)).fetchall()
    assert rows == [(f"{prefix}-{number}", 200, 200, 200) for number in range(6)]
