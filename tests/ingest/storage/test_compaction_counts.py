"""The row of a session, its page and trends count the same compactions, for all clients and in any order of events."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from live_server import Server
from reader import client_of

from ..conftest import Wire

Event = dict[str, Any]
DOCUMENT_000 = {
    "model": "gpt-5",
    "t_est": 112,
    "max": 128,
    "policy": {"trigger_pct": 0.85, "buffer": 5},
    "pruned_count": 47,
}
DECISION = {"triggered": True, "reason": "over", "rule": "trigger_pct", "t_est": 112, "max_tokens": 128}
RESULT = {"tokens_before": 112, "tokens_after": 40, "pruned_count": 47}
FATES = {**RESULT, "fates": {"summarized": 47}}
RECOVERY = {"removed_count": 4, "tokens_before": 112, "tokens_after": 40}
CHECK = {"trigger": "preflight", "triggered": True, "tokens_before": 112, "max_tokens": 128}

SESSIONS: dict[str, tuple[int, list[tuple[str, dict[str, Any]]]]] = {
    "failed": (0, [("check", CHECK), ("trigger_decision", DECISION), ("error", {"error_type": "X"})]),
    "document 000 with pruning": (1, [("trigger_decision", DOCUMENT_000), ("pruned_messages", RESULT)]),
    "document 000 alone": (1, [("trigger_decision", DOCUMENT_000)]),
    "older overflow": (1, [("overflow_recovered", RECOVERY), ("pruned_messages", RESULT)]),
    "older overflow alone": (1, [("check", {**CHECK, "trigger": "overflow"}), ("overflow_recovered", RECOVERY)]),
    "summary only": (0, [("summary_created", {"summary_tokens": 9, "input_messages": 4})]),
    "running": (0, [("check", {**CHECK, "is_open": True}), ("trigger_decision", DECISION)]),
    "futile": (
        0,
        [("check", CHECK), ("trigger_decision", DECISION), ("completed", {"details": {"changed": False}})],
    ),
    "paused": (0, [("check", CHECK), ("trigger_decision", DECISION), ("breaker_open", {})]),
    "ordinary": (1, [("check", CHECK), ("trigger_decision", DECISION), ("pruned_messages", FATES)]),
    "ordinary without a check": (1, [("trigger_decision", DECISION), ("pruned_messages", RESULT)]),
    "overflow of today": (
        1,
        [
            ("check", {**CHECK, "trigger": "overflow"}),
            ("trigger_decision", DECISION),
            ("pruned_messages", FATES),
            ("overflow_recovered", {**RECOVERY, "window_tokens": 100}),
        ],
    ),
}


@pytest.fixture(scope="module")
def reader(server: Server) -> Iterator[httpx.Client]:
    with client_of(server, "operator") as client:
        yield client


def check_events(trace: str, number: int, parts: list[tuple[str, dict[str, Any]]], *, minute: int = 0) -> list[Event]:
    """Return the events of one check. Those of a client without check spans have no parent."""
    has_check = any(kind == "check" for kind, _ in parts)
    events = []
    for position, (kind, data) in enumerate(parts):
        properties = {key: value for key, value in data.items() if key != "is_open"}
        at = f"2026-11-16T08:{minute:02}:{position:02}Z"
        event = {
            "type": "span",
            "trace_id": trace,
            "span_id": f"{number}-{kind}",
            "event": f"compact.{kind}",
            "started_at": at,
            "properties": properties,
        }
        if not data.get("is_open"):
            event["ended_at"] = at
        if has_check and kind != "check":
            event["parent_id"] = f"{number}-check"
        events.append(event)
    return events


def counts(wire: Wire, reader: httpx.Client, name: str) -> dict[str, int]:
    """Return the compactions of a session by each way to read them."""
    row = reader.get(f"/api/sessions/{name}/").json()
    listed = reader.get(f"/api/sessions/{name}/compactions/").json()["results"]
    checks = reader.get(f"/api/sessions/{name}/tokens/").json()["results"]
    (hours,) = wire.rows(
        "SELECT coalesce(sum(compactions), 0)::int AS count FROM ingest_activity WHERE session_key = %s", row["key"]
    )
    return {
        "row": row["compaction_count"],
        "page": len(listed),
        "checks": sum(check["outcome"] == "compacted" for check in checks),
        "trends": hours["count"],
    }


@pytest.mark.parametrize("kind", SESSIONS)
def test_row_page_and_trends_agree(wire: Wire, reader: httpx.Client, name: str, kind: str) -> None:
    expected, parts = SESSIONS[kind]
    events = check_events(name, 1, parts)
    # One event at a time, the last one first, and everything again.
    for event in reversed(events):
        wire.send(event)
    wire.send(*events)
    assert counts(wire, reader, name) == dict.fromkeys(("row", "page", "checks", "trends"), expected)
    page = reader.get(f"/sessions/{name}/compactions/1/")
    assert page.status_code == (200 if expected else 404)


def recount(wire: Wire, name: str) -> int:
    """Count the stored spans, independently of the code that keeps the figures."""
    sole, parents = 0, defaultdict[tuple[str, str | None], Counter[str]](Counter)
    for span in wire.spans(name):
        kind, data = span["kind"].removeprefix("compact."), span["data"]
        if kind == "pruned_messages" and "fates" in data:
            sole += 1
        elif (
            kind == "pruned_messages"
            or (kind == "trigger_decision" and "triggered" not in data and data.get("pruned_count"))
            or (kind == "overflow_recovered" and "window_tokens" not in data)
        ):
            parents[span["trace_id"], span["parent_id"]][kind] += 1
    return sole + sum(max(kinds.values()) for kinds in parents.values())


@pytest.mark.parametrize("seed", range(3))
def test_any_order_and_any_replay_gives_the_same_counts(wire: Wire, reader: httpx.Client, name: str, seed: int) -> None:
    """Checks of all clients in one session, in many commits. Row and page also agree in between."""
    chance = random.Random(seed)
    events = [
        event
        for number in range(30)
        for event in check_events(name, number, chance.choice(list(SESSIONS.values()))[1], minute=number)
    ]
    # A span that is open, or that has less data, arrives before or after its complete version.
    partial = [
        {key: value for key, value in event.items() if key != "ended_at"} | {"properties": {}}
        for event in chance.sample(events, 20)
    ]
    queue = [*events, *partial, *chance.sample(events, 20)]
    chance.shuffle(queue)
    while queue:
        batch, queue = queue[:15], queue[15:]
        wire.send(*batch)
        assert len(set(counts(wire, reader, name).values())) == 1
    expected = recount(wire, name)
    assert expected > 5
    assert counts(wire, reader, name) == dict.fromkeys(("row", "page", "checks", "trends"), expected)
    # A move counts the session again as a whole.
    wire.send({"type": "trace", "trace_id": name, "group_id": f"{name}-group"})
    assert set(counts(wire, reader, f"{name}-group").values()) == {expected}
