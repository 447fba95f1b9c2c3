"""The gateway and `watch` record the same session as one, in both orders of arrival."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import psycopg
import pytest
from client.gateway.recorder.wire_feed import LOGS, Recording, read_exchanges
from compact import AriadneExporter
from compact.importers.log_file import LogFile
from live_server import Server
from reader import client_of
from wire.test_client_to_server import spans

Events = list[dict[str, Any]]
FIGURES = "compaction_count, facts_total, facts_kept, turn_count, last_tokens, error_count, running_count"


def wire_events(version: str) -> Events:
    return Recording().play(read_exchanges(version)).events


def log_events(version: str) -> Events:
    paths = sorted((LOGS / version).rglob("*.jsonl"))
    return [event for path in paths for step in LogFile(path).steps(None, is_final=True) for event in step.events]


def rename(events: Events, suffix: str) -> Events:
    """Return the events of another session with the same content."""
    names = {event.get("session_id", event.get("group_id")) for event in events}
    text = json.dumps(events)
    for name in names:
        text = text.replace(f'"{name}"', f'"{name}{suffix}"')
    for event in (renamed := json.loads(text)):
        event["trace_id"] = f"{suffix}{event['trace_id']}"[:32]
    return list(renamed)


def send(server: Server, events: Iterable[dict[str, Any]]) -> None:
    exporter = AriadneExporter(server.ingest_url, server.ingest_key, spool_dir=None)
    for event in events:
        exporter.emit(event)
    assert exporter.flush(timeout_s=20)
    assert exporter.stats()["rejected"] == 0
    exporter.close()


def figures(server: Server, session_id: str) -> tuple[Any, ...]:
    with psycopg.connect(server.database_url) as connection:
        query = f"SELECT {FIGURES} FROM ingest_session WHERE session_id = %s"
        (row,) = connection.execute(query, (session_id,)).fetchall()
    return tuple(row)


ORDERS: dict[str, Callable[[Events, Events], Events]] = {
    "wire-first": lambda wire, log: [*wire, *log],
    "log-first": lambda wire, log: [*log, *wire],
    "both-twice": lambda wire, log: [*log, *wire, *log, *wire],
}


@pytest.mark.parametrize("version", ["claude_code_2.1.327", "codex_0.169.0"])
def test_wire_and_log_are_one_session_in_any_order(server: Server, version: str) -> None:
    """Exact fates replace inferred ones, each span is stored once, and replays change nothing."""
    wire, log = wire_events(version), log_events(version)
    compacted = next(event["session_id"] for event in wire if event.get("kind") == "compact.pruned_messages")
    results = []
    for order, arrange in ORDERS.items():
        suffix = f"-{version[:6]}-{order}"
        send(server, rename(arrange(wire, log), suffix))
        stored = spans(server, f"{compacted}{suffix}")
        (result,) = [span for span in stored if span["kind"] == "compact.pruned_messages"]
        assert (result["data"]["evidence"], result["data"].get("inferred")) == ("exact", None)
        assert not any("inferred" in entry for entry in result["payload"]["ledger"])
        contents = {span["span_id"]: (span["kind"], span["status"], json.dumps(span["data"])) for span in stored}
        results.append((figures(server, f"{compacted}{suffix}"), sorted(contents)))
    assert results[0] == results[1] == results[2]
    alone = f"-{version[:6]}-alone"
    send(server, rename(wire, alone))
    seen, counted = figures(server, f"{compacted}{alone}"), results[0][0]
    assert seen[:5] == counted[:5]  # compactions, facts, turns and size are those of the wire


def test_the_page_of_an_exact_compaction_says_so(server: Server) -> None:
    """The reader sees that both prompts were seen as they were sent, and no fate is called inferred."""
    events = rename(wire_events("claude_code_2.1.327"), "-page")
    send(server, events)
    session_id = next(event["session_id"] for event in events if event.get("kind") == "compact.pruned_messages")
    with client_of(server, "developer") as client:
        page = client.get(f"/sessions/{session_id}/compactions/1/").text
        tree = client.get(f"/api/sessions/{session_id}/spans/").text
    assert 'data-testid="exact-note"' in page
    assert 'data-testid="inferred-note"' not in page
    assert "compact.request" in tree
