"""Requests that were forwarded but not recorded are counted, shown, and make later compactions less certain."""

from __future__ import annotations

import json
from typing import Any

from client.gateway.recorder.wire_feed import Recording, anthropic, open_frame
from compact.gateway.frames import Frame, Kind

TEXT = [{"type": "text", "text": "The tests of the ledger pass now, and the invoices are right."}]
USER = {"role": "user", "content": "Fix the tests of the billing service."}
NEXT = {"role": "user", "content": "Now the invoices, please."}
NAMED = [["x-claude-code-session-id", "s1"]]


def lose(recording: Recording, numbers: list[int], *, at: float, heads: int = 1_000, **more: Any) -> None:
    """Lose some requests. The recorder knows the heads of the first ones."""
    record = anthropic([USER], answer=TEXT, at=at)
    record["headers"] = more.pop("headers", [])
    frames = [open_frame(record, number, **more) for number in numbers[:heads]]
    gap = {"exchanges": numbers, "bytes_dropped": 100}
    recording.feed([*frames, Frame(Kind.GAP, 0, at, json.dumps(gap).encode())])


def gaps(recording: Recording) -> dict[str, int]:
    """The number of lost requests by session."""
    counts: dict[str, int] = {}
    for event in recording.of_kind("compact.gap"):
        counts[event["session_id"]] = counts.get(event["session_id"], 0) + event["properties"]["request_count"]
    return counts


def test_a_gap_without_a_session_is_an_event_too() -> None:
    """It has a session of its own for each user, so that two users of a gateway share nothing."""
    recording = Recording()
    lose(recording, [1, 2], at=1.8e9, credential="one")
    lose(recording, [3], at=1.8e9, credential="two")
    lose(recording, [4, 5, 6], at=1.8e9, heads=0)
    recording.recorder.close()
    assert sorted(gaps(recording).values()) == [1, 2, 3]
    assert all(name.startswith("gateway-gaps") for name in gaps(recording))
    traces = {event["group_id"] for event in recording.events if event["type"] == "trace"}
    assert traces == set(gaps(recording))
    assert recording.recorder.figures["gaps"] == 6


def test_many_gaps_are_few_events() -> None:
    """A recorder that is behind must not make more work of it."""
    recording = Recording()
    recording.play([anthropic([USER], answer=TEXT, headers=NAMED)])
    for number in range(500):
        lose(recording, [100 + number], at=1.8e9 + number / 100, headers=NAMED)
    recording.recorder.close()
    assert gaps(recording) == {"s1": 500}
    assert len(recording.of_kind("compact.gap")) <= 7


def after_gap(*, credential: str, heads: int) -> str:
    """Return the evidence of a compaction of a session without a name, after another request was lost."""
    recording = Recording()
    history = [USER]
    for number in range(4):
        recording.play([anthropic(history, answer=TEXT, at=1.8e9 + number)], credential="one")
        history = [*history, {"role": "assistant", "content": TEXT}, {"role": "user", "content": f"Step {number}."}]
    lose(recording, [99], at=1.8e9 + 10, heads=heads, credential=credential)
    shorter = [USER, *history[5:]]
    recording.play([anthropic(shorter, answer=TEXT, at=1.8e9 + 11)], credential="one")
    (check,) = recording.of_kind("compact.triggered", "compact.pruned_messages")[:1] or [{}]
    return str(check.get("properties", {}).get("evidence"))


def test_a_lost_request_of_unknown_session_may_be_of_any_session_of_its_user() -> None:
    """A compaction after it is not exact. Other users are not concerned, unless its head is lost, too."""
    assert after_gap(credential="two", heads=1) == "exact"
    assert after_gap(credential="one", heads=1) == "inferred"
    assert after_gap(credential="two", heads=0) == "inferred"
