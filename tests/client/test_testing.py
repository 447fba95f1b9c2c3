"""The helpers that users assert with: they pass what is right and name what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from compact import CompactConfig, CompactManager, CompactPolicy, Message, NoopEstimator
from compact.testing import RecordingExporter, assert_no_secrets, assert_pairs_whole, assert_protected_kept


def chat(count: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
    for n in range(count):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        items += [
            {"role": "user", "content": f"question {n} " + "word " * 50},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": "text " * 50},
        ]
    return items


def test_a_compaction_passes_them_all() -> None:
    """Record the events, check pairs and protected messages, and that no secret left."""
    recorder = RecordingExporter()
    policy = CompactPolicy(keep_recent_turns=1, keep_tool_io_pairs=1, hard_cap_buffer=10)
    config = CompactConfig("gpt-5", 2_000, policy=policy, token_estimator=NoopEstimator(), exporter=recorder)
    before = chat(20)
    after = CompactManager(config).preflight("s", before)
    assert len(after) < len(before)
    assert "compact.pruned_messages" in recorder.names
    assert recorder.of("compact.pruned_messages")[0]["properties"]["pruned_count"] > 0
    assert_pairs_whole(after)
    assert_protected_kept(before, after)
    assert_no_secrets(recorder.events)


def test_a_torn_pair_is_named() -> None:
    """An output without its call, or a call in the middle without its output."""
    items = chat(2)
    with pytest.raises(AssertionError, match="outputs without a call: c0"):
        assert_pairs_whole(
            [item for item in items if not (item.get("tool_calls") and item["tool_calls"][0]["id"] == "c0")]
        )
    with pytest.raises(AssertionError, match="calls without an output: c0"):
        assert_pairs_whole([item for item in items if item.get("tool_call_id") != "c0"])
    assert_pairs_whole(items[:-1])


def test_a_lost_message_and_a_leak_are_named() -> None:
    """Which message is gone, and which rule would have hidden what leaked."""
    kept = Message("user", "the limit is 900", {"protected": True})
    with pytest.raises(AssertionError, match="the limit is 900"):
        assert_protected_kept([kept], [Message("user", "hello")])
    with pytest.raises(AssertionError, match="api_key"):
        assert_no_secrets([{"text": "api_key=sk-abc123"}])
