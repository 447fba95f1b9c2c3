"""Pruning policies: which units are removed first."""

from __future__ import annotations

import pytest
from builders import tool_pair
from compact import CompactConfig, CompactManager, CompactPolicy, ConfigError


def history():
    """Twelve turns that alternate between billing and parsing, and a question about billing."""
    messages = []
    for number, topic in enumerate(["billing invoice ledger", "parser grammar token", "billing invoice refund"] * 4):
        messages += [
            {"role": "user", "content": f"{number}: work on {topic} " + f"{topic} " * 12},
            *tool_pair(number, f"{topic} " * 15),
            {"role": "assistant", "content": f"{number}: done with {topic}"},
        ]
    return [*messages, {"role": "user", "content": "now the invoice billing ledger again, the invoice of billing"}]


def compact_with(pruning, window=2200, **options):
    """Compact the history with a pruning policy and return the manager and the kept user messages."""
    policy = CompactPolicy(
        hard_cap_buffer=100, pruning=pruning, keep_recent_turns=2, keep_tool_io_pairs=2, trigger_pct=0.5, **options
    )
    manager = CompactManager(CompactConfig("gpt-5", window, policy=policy))
    out = manager.preflight("s", history())
    return manager, [item["content"] for item in out if item["role"] == "user"]


@pytest.mark.req("P-KEEP-1")
def test_recency_keeps_the_last_turns():
    """The default policy keeps the last turns, whatever their subject."""
    _, users = compact_with("recency")
    assert [text.partition(":")[0] for text in users[:-1]] == ["10", "11"]


@pytest.mark.req("P-KEEP-1")
def test_fifo_removes_only_the_oldest_messages():
    """The kept messages are the longest suffix of the conversation that fits."""
    manager, users = compact_with("fifo")
    numbers = [int(text.partition(":")[0]) for text in users[:-1]]
    assert numbers == list(range(12 - len(numbers), 12))
    fates = [entry.fate for entry in manager.plan("s").ledger]
    assert fates == sorted(fates, key={"summarized": 0, "kept": 1}.get)
    assert any(entry.rule == "fifo: newest that fit" for entry in manager.plan("s").ledger)


@pytest.mark.req("P-KEEP-1")
def test_stage_aware_keeps_the_request_of_a_kept_tool_pair():
    """The user message that led to a kept tool call stays."""
    policy = CompactPolicy(keep_recent_turns=1, keep_tool_io_pairs=3, pruning="stage_aware")
    out = CompactManager(CompactConfig("gpt-5", 50_000, policy=policy)).manual_compact("s", history())
    users = [item["content"].partition(":")[0] for item in out if item["role"] == "user"]
    calls = [item["tool_calls"][0]["id"] for item in out if item.get("tool_calls")]
    assert calls == ["c9", "c10", "c11"]
    assert users[:-1] == ["9", "10", "11"]


@pytest.mark.req("P-KEEP-1")
def test_semantic_pruning_requires_its_flag_and_keeps_related_messages():
    """Older messages about the current subject stay. Without `semantic_keep`, the policy is rejected."""
    with pytest.raises(ConfigError, match="semantic_keep"):
        CompactPolicy(pruning="semantic")
    policy = CompactPolicy(keep_recent_turns=1, keep_tool_io_pairs=1, pruning="semantic", semantic_keep=True)
    manager = CompactManager(CompactConfig("gpt-5", 50_000, policy=policy))
    out = manager.manual_compact("s", history())
    users = [item["content"] for item in out if item["role"] == "user"][:-1]
    assert any("billing" in text for text in users)
    rules = [entry.rule for entry in manager.plan("s").ledger if entry.fate == "kept"]
    assert "semantic cluster near the current work" in rules
    assert out == CompactManager(CompactConfig("gpt-5", 50_000, policy=policy)).manual_compact("s", history())
