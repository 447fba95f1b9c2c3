"""Token budgets: breakdown, limits, and the provider's reported usage."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from compact.planning.budget import PARTS, Breakdown, TokenBudget, Usage, correction_factor
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.req("P-BUD-2")
@given(st.lists(st.integers(0, 10_000), min_size=6, max_size=6), st.integers(0, 200_000))
def test_scaled_breakdown_sums_exactly_to_the_total(parts, total):
    """Scaling to any total gives non-negative integers that sum to it."""
    scaled = Breakdown(**dict(zip(PARTS, parts, strict=True))).scale_to(total)
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
    assert correction_factor(0, 100) == 1.0
    assert correction_factor(100, 0) == 1.0
    assert correction_factor(1_000_000, 100) == 4.0
