"""Trigger rules: when a request is compacted."""

from __future__ import annotations

import pytest
from compact.planning.trigger import decide
from compact.policy import CompactPolicy
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.req("S-TRG-1", "P-TRG-1", "C-TRG-1")
@pytest.mark.parametrize(
    ("used", "window", "options", "at_turn_start", "rule"),
    [
        (108_800, 128_000, {}, True, "trigger_pct"),
        (108_799, 128_000, {}, True, "below"),
        (96_000, 128_000, {}, True, "below"),
        (121_600, 128_000, {"trigger_pct": 1.0}, True, "min_left_pct"),
        (121_599, 128_000, {"trigger_pct": 1.0}, True, "below"),
        (98_000, 128_000, {"trigger_tokens_left": 30_000}, True, "tokens_left"),
        (97_999, 128_000, {"trigger_tokens_left": 30_000}, True, "below"),
        (90_000, 128_000, {"soft_trigger_pct": 0.7}, True, "soft_trigger_pct"),
        (90_000, 128_000, {"soft_trigger_pct": 0.7}, False, "below"),
        (108_800, 128_000, {"soft_trigger_pct": 0.7}, False, "trigger_pct"),
        (50_000, 128_000, {"auto_compact_token_limit": 50_000}, True, "token_limit"),
        (50_000, None, {"auto_compact_token_limit": 50_000}, True, "token_limit"),
        (49_999, None, {"auto_compact_token_limit": 50_000}, True, "below"),
        (10**9, None, {}, True, "unknown_window"),
        (6_501, 8_000, {}, True, "budget"),
        (6_500, 8_000, {}, True, "below"),
    ],
)
def test_rule_fires_at_its_threshold(used, window, options, at_turn_start, rule):
    """A rule fires at its threshold and not one token below it. The decision names the rule."""
    decision = decide(used, window_tokens=window, policy=CompactPolicy(**options), at_turn_start=at_turn_start)
    assert decision.rule == rule
    assert decision.triggered is (rule not in ("below", "unknown_window"))


@pytest.mark.req("S-MAN-1")
def test_manual_compaction_always_triggers():
    """A manual call compacts at any usage."""
    assert decide(1, window_tokens=128_000, policy=CompactPolicy(), is_manual=True).triggered


def test_reason_contains_the_numbers():
    """The reason has the usage, the threshold and the margin."""
    decision = decide(96_000, window_tokens=128_000, policy=CompactPolicy())
    assert decision.reason == "96,000 tokens are 75.0% of 128,000: 12,800 below 108,800 (trigger_pct 0.85)"
    assert decision.margin_tokens == 12_800


@given(st.integers(0, 300_000), st.integers(1000, 200_000), st.floats(0, 1))
def test_higher_usage_never_prevents_a_compaction(used, window, pct):
    """If a request is compacted, a larger one is compacted too."""
    policy = CompactPolicy(trigger_pct=pct)
    if decide(used, window_tokens=window, policy=policy).triggered:
        assert decide(used + 1, window_tokens=window, policy=policy).triggered
