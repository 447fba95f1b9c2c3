"""OpenTelemetry, imported logs and `compactctl tail` with a real server."""

from __future__ import annotations

import hashlib
import json
import secrets
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import psycopg
import pytest
from agent_logs import CLAUDE_CODE_SESSION
from compact import AriadneExporter, CompactConfig, CompactManager, CompactPolicy, OTLPExporter
from compact.cli import exit_codes, main
from conversations import conversation
from live_server import Server
from psycopg.types.json import Jsonb
from reader import client_of
from receiver import eventually

LOGS = Path(__file__).resolve().parent.parent / "fixtures" / "logs"


def kinds(server: Server, session_id: str) -> list[str]:
    query = "SELECT s.kind FROM ingest_span s JOIN ingest_session USING (session_key) WHERE session_id = %s"
    with psycopg.connect(server.database_url) as connection:
        return [row[0] for row in connection.execute(query, (session_id,)).fetchall()]


@pytest.mark.req("P-TST-2", "K-ING-2", "P-EXP-1")
def test_otlp_spans_and_their_events_are_stored(server: Server) -> None:
    """A check that OpenTelemetry's exporter sends is stored as a span, with each event as its child."""
    session_id = f"otlp-{uuid.uuid4().hex[:8]}"
    exporter = OTLPExporter(f"{server.url}/v1/traces", headers=server.headers)
    policy = CompactPolicy(hard_cap_buffer=300, keep_recent_turns=2, keep_tool_io_pairs=1)
    manager = CompactManager(CompactConfig("gpt-5", 6_000, policy=policy, exporter=exporter))
    manager.preflight(session_id, conversation(60))
    assert exporter.flush(10)
    exporter.close()
    stored = eventually(lambda: kinds(server, session_id))
    assert {"compact.token_estimate", "compact.trigger_decision", "compact.summary_created"} <= set(stored)


@pytest.mark.req("P-CLI-1")
def test_importing_a_log_twice_stores_its_spans_once(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """`compactctl import` creates a session. The second import adds no span."""
    session_id = f"import-{uuid.uuid4().hex[:8]}"
    arguments = ["import", str(LOGS / "claude_code.jsonl"), "--session-id", session_id, "--json"]
    server_arguments = ["--url", server.url, "--key", server.ingest_key]
    assert main([*arguments, *server_arguments]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["rejected"], result["sent"]) == (0, result["logs"][0]["events"])
    once = sorted(kinds(server, session_id))
    assert {"agent", "generation", "tool", "compact.token_estimate", "compact.summary_created"} <= set(once)
    assert main([*arguments, *server_arguments]) == 0
    assert sorted(kinds(server, session_id)) == once


def api_token(server: Server, username: str, scopes: list[str]) -> str:
    token = f"arip_{secrets.token_urlsafe(32)}"
    with psycopg.connect(server.database_url) as connection:
        connection.execute(
            "INSERT INTO viewer_apitoken (user_id, label, scopes, digest, hint, created_at) "
            "SELECT id, 'test', %s, %s, 'x', now() FROM auth_user WHERE username = %s",
            (Jsonb(scopes), hashlib.sha256(token.encode()).hexdigest(), username),
        )
    return token


@pytest.mark.req("A-CAP-1")
def test_the_addresses_of_an_import_lead_to_the_pages_of_its_compactions(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first compaction lost nothing, so the address leads to the second one. An unknown span has no page."""
    session_id = f"import-{uuid.uuid4().hex[:8]}"
    assert main([
        "import", str(CLAUDE_CODE_SESSION), "--session-id", session_id, "--json",
        "--url", server.url, "--key", server.ingest_key,
    ]) == exit_codes.UNREADABLE  # fmt: skip
    worst = json.loads(capsys.readouterr().out)["worst_compactions"]
    assert [loss["compaction"] for loss in worst] == [2]
    with client_of(server, "developer") as browser:
        for loss in worst:
            page = browser.get(loss["url"])
            assert page.status_code == 200
            assert page.url.path == f"/sessions/{session_id}/compactions/{loss['compaction']}/"
        assert browser.get(f"/sessions/{session_id}/compactions/of/none/").status_code == 404


@pytest.mark.req("K-UI-2", "P-CLI-1")
def test_tail_prints_live_events(server: Server) -> None:
    """`compactctl tail` prints an event that is sent while it runs. An invalid token is rejected."""
    session_id = f"tail-{uuid.uuid4().hex[:8]}"
    token = api_token(server, server.logins["developer"]["username"], ["view_tail", "view_session"])
    command = [
        sys.executable,
        "-m",
        "compact.cli",
        "tail",
        "--url",
        server.url,
        "--session",
        session_id,
        "--json",
        "-n",
        "1",
    ]
    rejected = subprocess.run(
        [*command, "--token", "arip_wrong"], capture_output=True, text=True, timeout=60, check=False
    )
    assert rejected.returncode == 4, rejected.stderr
    # Start at 0, because the event can arrive before the process has connected.
    tail = subprocess.Popen([*command, "--token", token, "--after", "0"], stdout=subprocess.PIPE, text=True)
    event: dict[str, Any] = {"event": "compact.check", "session_id": session_id, "ts": "2026-11-16T04:00:00Z"}
    exporter = AriadneExporter(server.url, server.ingest_key, spool_dir=None)
    exporter.emit(event)
    assert exporter.flush(10)
    exporter.close()
    out, _ = tail.communicate(timeout=60)
    assert tail.returncode == 0
    line = json.loads(out)
    assert (line["session"], line["kind"]) == (session_id, "compact.check")
