"""`compact.testing`: checks pass valid results and describe the problem in invalid ones."""

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


def test_compaction_passes_all_checks() -> None:
    """Events are recorded, pairs are whole, protected messages stay, and no secret is exported."""
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


def test_incomplete_pair_is_reported() -> None:
    """Reports an output without a call, and a call without an output unless it is the last."""
    items = chat(2)
    with pytest.raises(AssertionError, match="outputs without a call: c0"):
        assert_pairs_whole(
            [item for item in items if not (item.get("tool_calls") and item["tool_calls"][0]["id"] == "c0")]
        )
    with pytest.raises(AssertionError, match="calls without an output: c0"):
        assert_pairs_whole([item for item in items if item.get("tool_call_id") != "c0"])
    assert_pairs_whole(items[:-1])


def test_missing_message_and_leaked_secret_are_reported() -> None:
    """Reports the missing message, and the rule that detects the secret."""
    kept = Message("user", "the limit is 900", {"protected": True})
    with pytest.raises(AssertionError, match="the limit is 900"):
        assert_protected_kept([kept], [Message("user", "hello")])
    with pytest.raises(AssertionError, match="api_key"):
        assert_no_secrets([{"text": "api_key=sk-abc123"}])
