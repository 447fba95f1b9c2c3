"""Clients that others wrote work unchanged, and what they send looks good.

`fixtures/public_ariadne` holds bodies recorded from the public Ariadne project's two exporters (the Agents SDK's and
the compaction library's), which know an address and nothing of keys.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ..conftest import Wire

RECORDED = Path(__file__).resolve().parents[2] / "fixtures" / "public_ariadne"


def recorded(file: str, name: str) -> Any:
    """A recorded body under ids of this test's own."""
    text = (RECORDED / file).read_text()
    for id_of_theirs in ("trace_d939bf688fa74c2095bd2407e1560bfa", "chat-42", "session-abc123def456", "s-1"):
        text = text.replace(f'"{id_of_theirs}"', f'"{id_of_theirs}-{name}"')
    return json.loads(text)


def post_as_they_do(wire: Wire, body: Any) -> None:
    """An address with the key in it is all they are given."""
    address = f"http://ariadne:{wire.key}@{wire.url.removeprefix('http://')}/ingest"
    wire.http.post(address, json=body).raise_for_status()


@pytest.mark.req("K-ING-1")
def test_the_public_agents_sdk_exporter_works(wire: Wire, name: str) -> None:
    """Its batch becomes one session of its group, with kinds and names of ours, and texts in payloads."""
    post_as_they_do(wire, recorded("agents_sdk.json", name))
    rows = wire.spans(f"chat-42-{name}")
    found = {row["kind"]: row for row in rows}
    assert {row["kind"]: row["name"] for row in rows} == {
        "agent": "Weather Assistant",
        "generation": "gpt-4o-mini",
        "tool": "get_weather",
        "guardrail": "no_politics",
        "handoff": "Weather Assistant → Poet",
        "compact.token_estimate": "compact.token_estimate",
    }
    assert {row["parent_id"] for row in rows} == {None, found["agent"]["span_id"]}
    assert found["generation"]["payload"]["output"] == [{"role": "assistant", "content": "Let me look."}]
    assert "input" not in found["generation"]["data"]
    assert found["compact.token_estimate"]["data"]["t_est"] == 120
    session = wire.session(f"chat-42-{name}")
    assert (session["model"], session["peak_tokens"], session["window_tokens"]) == ("gpt-4o-mini", 120, 128_000)


@pytest.mark.req("K-ING-1")
def test_the_public_compaction_exporter_works(wire: Wire, name: str) -> None:
    """Its events, with one time, properties and a payload in a string, become checks and compactions of a session."""
    post_as_they_do(wire, recorded("compaction.json", name))
    rows = wire.spans(f"s-1-{name}")
    assert [row["kind"] for row in rows] == [
        "compact.token_estimate",
        "compact.trigger_decision",
        "compact.summary_created",
        "compact.pruned_messages",
    ]
    assert rows[2]["payload"] == {"summary": "Goals: …"}
    assert [row["tokens"] for row in rows] == [110_000, None, 480, 9_000]
    session = wire.session(f"s-1-{name}")
    assert (session["check_count"], session["compaction_count"], session["peak_tokens"]) == (1, 1, 110_000)
    assert wire.rows("SELECT 1 FROM ingest_session WHERE session_id = %s", f"session-abc123def456-{name}") == []
