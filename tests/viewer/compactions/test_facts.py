"""Facts are counted the same way everywhere: in the API, the list, the alarm and the tail."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from agent_session import play, send
from hypothesis import given
from hypothesis import strategies as st
from live_server import Server
from reader import client_of

from ingest.decoding.facts import FactCount, count_facts, count_facts_by_kind
from viewer.kinds import RETENTION, kind_of
from viewer.numbers import format_facts

BY_KIND = {"number": {"found": 254, "kept": 160, "restored": 25, "lost": 69}, "id": {"found": 11, "kept": 11}}
HEADLINE = "196 of 265 facts kept (74%)"


def test_the_counts_by_kind_of_an_older_client_are_added_up() -> None:
    assert count_facts({"retention_pct": 0.908, "by_kind": BY_KIND}) == FactCount(265, 196)
    assert count_facts({"facts_total": 265, "facts_kept": 196, "by_kind": {}}) == FactCount(265, 196)
    assert count_facts({"retention_pct": 0.908}) is None
    assert kind_of(RETENTION).describe({"retention_pct": 0.908, "by_kind": BY_KIND}) == HEADLINE


def test_only_known_kinds_are_counted_by_kind() -> None:
    """The name of any other kind could be content."""
    by_kind = {"goal": {"found": 2, "kept": 1, "restored": 1}, "the password is x": {"found": 1}, "file": 3}
    assert count_facts_by_kind({"by_kind": by_kind}) == {"goal": FactCount(2, 2)}
    assert count_facts_by_kind({"by_kind": []}) == {}


@given(st.integers(1, 10_000), st.integers(0, 10_000))
def test_the_share_is_100_percent_only_if_nothing_is_missing(total: int, lost: int) -> None:
    kept = max(0, total - lost)
    assert ("(100%)" in format_facts(total, kept)) == (kept == total)
    assert ("(0%)" in format_facts(total, kept)) == (kept == 0)


@pytest.mark.parametrize("value", [None, "many", [], {"id": 3}, {"id": {"found": -1, "lost": "x"}}, {"id": None}])
def test_odd_counts_never_fail(value: Any) -> None:
    facts = count_facts({"by_kind": value})
    assert facts is None or facts.total == 0


@pytest.fixture(scope="module")
def lossy(server: Server) -> str:
    """A session whose one compaction lost 69 of 265 facts. Its client reports 90.8%, as it weighs them."""
    name = f"lossy-{uuid.uuid4().hex[:8]}"
    events = play(name, turns=17)
    for event in events:
        if event.get("kind") == RETENTION:
            event["data"] = {"step": 1, "retention_pct": 0.908, "by_kind": BY_KIND}
    # A replay must not count the facts twice.
    send(server.ingest_url, server.ingest_key, [*events, *events])
    return name


@pytest.mark.req("A-UI-1")
def test_the_api_counts_facts_and_lists_lost_ones_only_to_readers_of_payloads(server: Server, lossy: str) -> None:
    with client_of(server, "operator") as operator, client_of(server, "developer") as developer:
        for client in (operator, developer):
            session = client.get(f"/api/sessions/{lossy}/").json()
            assert (session["facts_total"], session["facts_kept"]) == (265, 196)
            assert session["worst_retention"] == pytest.approx(196 / 265)
            row = client.get(f"/api/sessions/{lossy}/compactions/").json()["results"][0]
            assert (row["facts_total"], row["facts_kept"], row["is_lossy"]) == (265, 196, True)
            assert row["facts_by_kind"] == {"id": {"total": 11, "kept": 11}, "number": {"total": 254, "kept": 185}}
            assert row["weighted_retention"] == 0.908
        assert "facts_lost" not in operator.get(f"/api/sessions/{lossy}/compactions/").text
        assert "export.py" not in operator.get(f"/api/sessions/{lossy}/compactions/").text
        (fact,) = row["facts_lost"]
        assert fact["text"] == "billing/legacy/export.py"
        assert fact["text"] in fact["sentence"]


@pytest.mark.req("A-UI-1")
def test_losing_69_of_265_facts_raises_the_alarm(server: Server, lossy: str) -> None:
    with client_of(server, "operator") as client:
        page = client.get("/", params={"q": lossy, "state": "lossy"}).text
        assert lossy in page
        assert "196 of 265 (74%)" in page
        assert HEADLINE in client.get(f"/sessions/{lossy}/").text
        compaction = client.get(f"/sessions/{lossy}/compactions/1/").text
        assert HEADLINE in compaction
        assert "No facts were lost" not in compaction


def test_the_decision_of_document_000_counts_as_one_compaction_everywhere(server: Server) -> None:
    name = f"flat-{uuid.uuid4().hex[:8]}"
    event = {
        "ts": "2025-10-19T06:00:00Z",
        "session_id": name,
        "event": "compact.trigger_decision",
        "model": "gpt-5-reasoning",
        "t_est": 112_345,
        "max": 128_000,
        "policy": {"trigger_pct": 0.85, "buffer": 1500},
        "kept": {"pinned": 3, "recent_turns": 6, "tool_pairs": 4},
        "pruned_count": 47,
        "summary_tokens": 480,
    }
    send(server.ingest_url, server.ingest_key, [event])
    with client_of(server, "operator") as client:
        assert client.get(f"/api/sessions/{name}/").json()["compaction_count"] == 1
        assert len(client.get(f"/api/sessions/{name}/compactions/").json()["results"]) == 1
        assert "1 compaction removed 47 messages" in client.get(f"/sessions/{name}/").text
