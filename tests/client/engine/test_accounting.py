"""The overhead, the factor and the window that a session learns stay in that session."""

from __future__ import annotations

import json
from typing import Any

import pytest
from compact import CallbackExporter, CompactConfig, CompactManager
from compact.adapters.plan_stores import MemoryCompactionStore

SECRETS = {"acme": "acme-Zq81-hunter2", "globex": "globex-Kp72-hunter3"}
RANDOM_KEYS = frozenset({"ts", "started_at", "ended_at", "trace_id", "span_id", "parent_id", "latency_ms"})


class Overflow(Exception):
    """A provider's refusal."""


def conversation(tenant: str, turns: int) -> list[dict[str, Any]]:
    items = [{"role": "system", "content": f"You work for {tenant}. password: {SECRETS[tenant]}"}]
    for turn in range(turns):
        items.append({"role": "user", "content": f"Check order {tenant}-{turn:04d}, never order {tenant}-{turn + 1}."})
        items.append({"role": "assistant", "content": f"Order {tenant}-{turn:04d} was shipped on May {turn % 28 + 1}."})
    return items


def manager(events: list[dict[str, Any]], **options: Any) -> CompactManager:
    return CompactManager(CompactConfig("gpt-5", 16_000, exporter=CallbackExporter(events.append), **options))


def teach(shared: CompactManager, session_id: str) -> None:
    """Let a session learn a large overhead, a large factor and a small window."""
    items = conversation("acme", 40)
    for hidden, factor in ((4_000, 1.0), (4_000, 3.0), (9_000, 3.0)):
        request = shared.preflight(session_id, items)
        shared.report_usage(session_id, {"input_tokens": int(len(json.dumps(request)) / 4 * factor) + hidden})
        items = [*items, {"role": "user", "content": "And now?"}, {"role": "assistant", "content": "Done."}]
    error = Overflow(
        "This model's maximum context length is 2000 tokens. However, your messages resulted in 9000 tokens."
    )
    shared.recover(session_id, shared.preflight(session_id, items), error)


def run(observed: CompactManager, session_id: str) -> list[list[dict[str, Any]]]:
    items = conversation("globex", 60)
    prompts = [observed.preflight(session_id, items[:size]) for size in (41, 81, 121)]
    return [*prompts, observed.manual_compact(session_id, items)]


def without_randomness(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_randomness(item) for key, item in value.items() if key not in RANDOM_KEYS}
    return [without_randomness(item) for item in value] if isinstance(value, list) else value


@pytest.mark.req("A-ID-2")
def test_what_one_session_learns_does_not_change_another():
    """The other tenant's prompts and events are those of a manager that never had the first session."""
    shared_events: list[dict[str, Any]] = []
    alone_events: list[dict[str, Any]] = []
    shared = manager(shared_events)
    teach(shared, "acme")
    prompts = run(shared, "globex")
    assert prompts == run(manager(alone_events), "globex")
    mine = [event for event in shared_events if event["session_id"] == "globex"]
    assert without_randomness(mine) == without_randomness(alone_events)
    learned = [event for event in shared_events if event["event"] == "compact.overflow_recovered"]
    assert [event["properties"]["window_tokens"] for event in learned] == [2_000]
    assert SECRETS["acme"] not in json.dumps([prompts, mine])
    assert not any(secret in json.dumps(shared_events) for secret in SECRETS.values())


def test_a_window_in_a_shared_plan_store_belongs_to_its_session():
    """Another process continues the session with the learned window, and other sessions with the configured one."""
    store = MemoryCompactionStore()
    teach(manager([], plan_store=store), "acme")
    events: list[dict[str, Any]] = []
    other = manager(events, plan_store=store)
    run(other, "globex")
    windows = {event["properties"]["max_tokens"] for event in events if event["event"] == "compact.token_estimate"}
    assert windows == {16_000}
