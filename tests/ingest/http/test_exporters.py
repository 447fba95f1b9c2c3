"""The exporters of the public Ariadne project work unchanged.

`fixtures/public_ariadne` has request bodies recorded from its two exporters, for the Agents SDK and for the compaction
library. They are configured with a URL only and do not support keys.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ..conftest import Wire

RECORDED = Path(__file__).resolve().parents[2] / "fixtures" / "public_ariadne"


def load_recorded(file: str, name: str) -> Any:
    """Return a recorded body with ids that only this test uses."""
    text = (RECORDED / file).read_text()
    for recorded_id in ("trace_d939bf688fa74c2095bd2407e1560bfa", "chat-42", "session-abc123def456", "s-1"):
        text = text.replace(f'"{recorded_id}"', f'"{recorded_id}-{name}"')
    return json.loads(text)


def post_with_key_in_url(wire: Wire, body: Any) -> None:
    """Post a body in the way these exporters do."""
    url = f"http://ariadne:{wire.key}@{wire.url.removeprefix('http://')}/ingest"
    wire.http.post(url, json=body).raise_for_status()


@pytest.mark.req("K-ING-1")
def test_the_public_agents_sdk_exporter_works(wire: Wire, name: str) -> None:
    """A batch becomes one session with the group's id. Kinds and names are mapped, and texts are in payloads."""
    post_with_key_in_url(wire, load_recorded("agents_sdk.json", name))
    rows = wire.spans(f"chat-42-{name}")
    by_kind = {row["kind"]: row for row in rows}
    assert {row["kind"]: row["name"] for row in rows} == {
        "agent": "Weather Assistant",
        "generation": "gpt-4o-mini",
        "tool": "get_weather",
        "guardrail": "no_politics",
        "handoff": "Weather Assistant → Poet",
        "compact.token_estimate": "compact.token_estimate",
    }
    assert {row["parent_id"] for row in rows} == {None, by_kind["agent"]["span_id"]}
    assert by_kind["generation"]["payload"]["output"] == [{"role": "assistant", "content": "Let me look."}]
    assert "input" not in by_kind["generation"]["data"]
    assert by_kind["compact.token_estimate"]["data"]["t_est"] == 120
    session = wire.session(f"chat-42-{name}")
    assert (session["model"], session["peak_tokens"], session["window_tokens"]) == ("gpt-4o-mini", 120, 128_000)


@pytest.mark.req("K-ING-1")
def test_the_public_compaction_exporter_works(wire: Wire, name: str) -> None:
    """Events with a single time, properties and a JSON string as payload become checks and compactions."""
    post_with_key_in_url(wire, load_recorded("compaction.json", name))
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
