"""The recording of a session in compact mode: one session, one compaction, the prompts as they were sent."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from client.gateway.compact_mode.conftest import Start, events_of, kind_of, wait_for_event
from client.gateway.compact_mode.test_requests import CLAUDE, LONG, conversation, loop_of, post
from compact.gateway.settings import RECORDER
from providers.server import StrictProvider
from receiver import Receiver
from wait import wait_until


@pytest.mark.parametrize("api", ["anthropic", "chat"])
async def test_one_session_has_one_compaction(start: Start, provider: StrictProvider, ariadne: Receiver, api: str):
    """The compaction is the library's, with its exact ledger. The recorder adds no second one."""
    gateway = start(recorder=RECORDER)
    with loop_of(api, gateway, "create") as loop:
        await loop.say("work 25")
        await loop.say("Thanks.")
    count = gateway.metrics()["compactions_total"]
    assert count >= 1

    def requests() -> list[dict[str, Any]]:
        return [event for event in events_of(ariadne) if kind_of(event) == "compact.request"]

    assert wait_until(lambda: len(requests()) >= len(provider.requests), timeout_s=30)
    events = events_of(ariadne)
    assert len([event for event in events if kind_of(event) == "compact.pruned_messages"]) == count
    assert not [event for event in events if kind_of(event) == "compact.foreign_compaction"]
    sessions = {event[key] for event in events for key in ("session_id", "group_id") if event.get(key)}
    assert len(sessions) == 1, sessions
    changes = [event["properties"].get("change") for event in requests()]
    assert changes.count("compaction") == count
    said = {event["span_id"]: event["payload"]["text"] for event in events if event.get("name") == "user"}
    assert list(said.values()) == ["work 25", "Thanks."]


def test_a_request_without_a_check_is_a_warning(start, provider, ariadne):
    """The event says why, in the session of the request."""
    silent = (sys.executable, "-c", "import os\nwhile os.read(0, 1 << 20): pass")
    gateway = start(recorder=RECORDER, compactor=silent, deadline_s=0.2)
    body = json.dumps({"model": "claude-opus-4-6", "max_tokens": 10, "messages": conversation(2, LONG)}).encode()
    assert post(gateway, body, CLAUDE)[0] == 200
    (event,) = wait_for_event(ariadne, "compact.warning")
    assert event["session_id"] == "s1"
    assert event["properties"]["code"] == "compaction_skipped"
