"""The archive on a real server: steps continue after a restart, and the page shows what is queued, stored or failed."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import psycopg
import pytest
from builders import chat_turns
from compact import AriadneExporter, AriadneStorage, CompactConfig, CompactManager, CompactPolicy, Message
from live_server import Server
from reader import log_in

from ingest.storage.payloads import decode_data


def compact_in_new_process(server: Server, session_id: str, number: int, spool: Path) -> None:
    """Compact a session with a manager that knows nothing of earlier ones."""
    exporter = AriadneExporter(server.ingest_url, server.ingest_key, spool_dir=None)
    storage = AriadneStorage(server.url, server.ingest_key, spool_dir=spool)
    policy = CompactPolicy(hard_cap_buffer=100, keep_recent_turns=2)
    manager = CompactManager(CompactConfig("gpt-5", 3_000, policy=policy, storage=storage, exporter=exporter))
    secret = Message("user", f"password: hunter2-{session_id}-Qz8{number}")
    manager.manual_compact(session_id, [secret, *chat_turns(12, start=20 * number)])
    assert storage.flush(30)
    storage.close()
    assert exporter.flush(30)
    exporter.close()


def rows(server: Server, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(server.database_url) as connection:
        return connection.execute(query, parameters).fetchall()


@pytest.mark.req("K-STO-1", "A-ARC-1")
def test_every_compaction_has_a_transcript_after_restarts(server: Server, tmp_path: Path) -> None:
    """Three processes compact the same session, and so does another tenant. Each event names a stored transcript."""
    sessions = [f"states-{name}-{uuid.uuid4().hex[:8]}" for name in ("acme", "globex")]
    for number in (1, 2, 3):
        for session_id in sessions:
            compact_in_new_process(server, session_id, number, tmp_path)
    for session_id in sessions:
        stored = rows(server, "SELECT step, sent_sha256 FROM ingest_transcript WHERE session_id = %s", session_id)
        assert sorted(step for step, _ in stored) == [1, 2, 3]
        events = rows(
            server,
            "SELECT data FROM ingest_span "
            "JOIN ingest_session USING (session_key) WHERE session_id = %s AND kind = 'compact.archival'",
            session_id,
        )
        events = [tuple(map(decode_data(data).get, ("state", "step", "sha256"))) for (data,) in events]
        assert sorted((step, digest) for state, step, digest in events if state == "stored") == sorted(stored)
        assert {state for state, _, _ in events} == {"queued", "stored"}
    client = log_in(server, "admin")
    for session_id in sessions:
        for number in (1, 2, 3):
            page = client.get(f"/sessions/{session_id}/compactions/{number}/").text
            assert '<dd data-testid="archival-state">Stored</dd>' in page
            assert "This compaction has no stored transcript" not in page
    page = client.get("/transcripts/").text
    assert page.count('data-testid="transcript-row"') >= 6
    unstored = [row.partition("</tr>")[0] for row in page.split('data-testid="unstored-row"')[1:]]
    assert not any(session_id in row for row in unstored for session_id in sessions)
