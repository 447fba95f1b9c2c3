"""Token budgets: breakdown, limits, and the provider's reported usage."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from compact.events import PROMPT_PARTS
from compact.messages.usage import Usage
from compact.planning.budget import Breakdown, TokenBudget
from compact.planning.limits import limits_for, planned_growth
from compact.planning.usage_correction import UsageCorrection
from compact.policy import CompactPolicy
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.req("P-BUD-2")
@given(st.lists(st.integers(0, 10_000), min_size=6, max_size=6), st.integers(0, 200_000))
def test_scaled_breakdown_sums_exactly_to_the_total(parts, total):
    """Scaling to any total gives non-negative integers that sum to it."""
    scaled = Breakdown(**dict(zip(PROMPT_PARTS, parts, strict=True))).scale_to(total)
    assert scaled.total == total
    assert min(scaled.to_dict().values()) >= 0


@pytest.mark.req("D-BUD-1")
def test_token_budget_subtracts_its_overhead():
    """Messages get the rest of the window after all overhead, and rehydration gets its reserve."""
    budget = TokenBudget(100_000, system_prompt_tokens=1000, tool_schema_tokens=2000, formatting_overhead_tokens=100)
    assert budget.available_for_messages == 85_000 - 1000 - 2000 - 100 - 500 - 2000
    assert budget.available_for_rehydration == 2000


@pytest.mark.req("C-BUD-1")
@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60}}, (100, 7, 60)),
        ({"input_tokens": 100, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 60}}, (100, 7, 60)),
        ({"input_tokens": 40, "output_tokens": 7, "cache_read_input_tokens": 60}, (100, 7, 60)),
        (SimpleNamespace(input_tokens=100, output_tokens=7), (100, 7, 0)),
        ({"prompt_tokens": 100.0, "completion_tokens": "7"}, (100, 0, 0)),
        ({"prompt_tokens": float("nan")}, (0, 0, 0)),
        (MagicMock(), (0, 0, 0)),
        (100, (100, 0, 0)),
    ],
)
def test_usage_of_every_provider_is_read(usage, expected):
    """Chat, Responses and Anthropic usage, objects and plain integers. Blended tokens exclude cached input."""
    tokens = Usage.from_provider(usage)
    assert (tokens.input_tokens, tokens.output_tokens, tokens.cached_tokens) == expected
    assert tokens.blended_tokens == expected[0] - expected[2] + expected[1]


def test_implausible_reports_are_limited():
    """A report of zero changes nothing, and a report far above the estimate is capped."""
    usage = UsageCorrection()
    usage.observe(100, 0)
    usage.observe(0, 100)
    assert (usage.has_samples, usage.apply(100)) == (False, 100)
    usage.observe(100, 1_000_000)
    assert usage.factor == 4.0


@pytest.mark.req("K-ACC-2", "C-BUD-1")
def test_hidden_tokens_on_a_small_first_call_are_an_overhead():
    """130 tokens of ours and 530 of the provider's: the next request of 10,000 tokens has 10,400, not 40,000."""
    usage = UsageCorrection()
    usage.observe(130, 530)
    assert usage.apply(130) == 530
    assert usage.apply(10_000) == 10_400
    usage.observe(2_000, 2_400)
    assert (usage.overhead_tokens, usage.factor) == (400, 1.0)


@pytest.mark.req("K-ACC-2")
@given(st.integers(0, 3_000), st.floats(0.7, 1.6), st.lists(st.integers(1_000, 100_000), min_size=2, max_size=8))
def test_overhead_and_factor_are_found_over_several_calls(overhead, factor, sizes):
    """Requests of different sizes separate the two, and the newest request is always reproduced."""
    usage = UsageCorrection()
    for size in sizes:
        usage.observe(size, round(size * factor) + overhead)
        assert usage.apply(size) == pytest.approx(round(size * factor) + overhead, abs=2)
        assert usage.revert(usage.apply(size)) == pytest.approx(size, abs=2)
    if max(sizes) - min(sizes) > 5_000:
        assert usage.apply(50_000) == pytest.approx(50_000 * factor + overhead, rel=0.02, abs=30)


@pytest.mark.req("K-ACC-2")
def test_one_odd_report_does_not_change_the_factor():
    """A report that belongs to another request is outvoted."""
    usage = UsageCorrection()
    for size in (1_000, 5_000, 9_000, 13_000):
        usage.observe(size, size + 300)
    usage.observe(17_000, 60_000)
    usage.observe(21_000, 21_300)
    assert usage.apply(25_000) == pytest.approx(25_300, rel=0.01)


@pytest.mark.parametrize(("median", "expected_space"), [(300, 6 * 300), (5_000, 0)])
def test_a_summary_leaves_no_space_for_calls_that_never_fit(median, expected_space):
    """If the typical call is larger than all space that could be left, the next call compacts anyway."""
    policy = CompactPolicy(hard_cap_buffer=0, headroom_calls=6)
    growth = planned_growth(policy, 8_000, 8_000, average=float(median), median=median)
    limits = limits_for(policy, 8_000, 8_000, growth)
    assert limits.summary_ceiling_tokens == min(8_000 - expected_space, limits.soft_limit_tokens)
    assert limits.soft_limit_tokens == (7_360 if expected_space else 7_920)


@pytest.mark.parametrize(("pinned", "summary", "ceiling"), [(0, 0, 4_800), (3_000, 0, 6_000), (2_000, 2_400, 6_000)])
def test_a_large_system_prompt_leaves_the_summary_its_share_of_the_rest(pinned, summary, ceiling):
    """Space for later calls is at most a share of what instructions leave, and an existing summary keeps its length."""
    limits = limits_for(CompactPolicy(hard_cap_buffer=0), 8_000, 6_800, growth_tokens=1_000.0)
    assert limits.beside(pinned, summary_tokens=summary, room_pct=0.6).summary_ceiling_tokens == ceiling


def test_a_breakdown_has_the_parts_of_the_event():
    assert tuple(Breakdown().to_dict()) == PROMPT_PARTS
