"""The row of a session, its page and trends count the same compactions, for all clients and in any order of events."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator

import httpx
import pytest
from check_reports import SESSIONS, check_events
from live_server import Server
from reader import client_of

from ..conftest import Wire


@pytest.fixture(scope="module")
def reader(server: Server) -> Iterator[httpx.Client]:
    with client_of(server, "operator") as client:
        yield client


@pytest.fixture(scope="module")
def mcp(server: Server) -> Iterator[httpx.Client]:
    """Return a client of `POST /mcp` with an API token of an operator."""
    with client_of(server, "operator") as page:
        page.get("/tokens/")
        headers = {"Referer": f"{server.url}/tokens/", "X-CSRFToken": page.cookies["csrftoken"]}
        answer = page.post("/tokens/", data={"label": "mcp", "scopes": "view_session"}, headers=headers)
    token = re.findall(r"arip_[\w-]+", answer.text)[0]
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        yield client


def count_over_mcp(mcp: httpx.Client, name: str) -> int:
    """Return the compactions of a session that a model reads."""
    call = {"name": "explain_compaction", "arguments": {"session": name}}
    answer = mcp.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
    assert answer.status_code == 200, answer.text
    return int(re.findall(r"compaction \d+ of (\d+)|has (\d+) compactions", answer.text)[0][0] or 0)


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


@pytest.mark.req("A-ONE-1")
@pytest.mark.parametrize("kind", SESSIONS)
def test_row_page_trends_and_mcp_agree(
    wire: Wire, reader: httpx.Client, mcp: httpx.Client, name: str, kind: str
) -> None:
    expected, parts = SESSIONS[kind]
    events = check_events(name, 1, parts)
    # One event at a time, the last one first, and everything again.
    for event in reversed(events):
        wire.send(event)
    wire.send(*events)
    assert counts(wire, reader, name) == dict.fromkeys(("row", "page", "checks", "trends"), expected)
    page = reader.get(f"/sessions/{name}/compactions/1/")
    assert page.status_code == (200 if expected else 404)
    assert count_over_mcp(mcp, name) == expected


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
