"""The growth check accepts linear functions and finds quadratic and expensive ones."""

from __future__ import annotations

import pytest
from growth import assert_linear


def _steps(count: int) -> None:
    for _ in range(count):
        pass


def test_linear_cost_is_accepted() -> None:
    """Twice the input takes about twice as long."""
    assert_linear(_steps, lambda size: 10 * size, ordinary=lambda size: 5 * size)


def test_quadratic_cost_is_found() -> None:
    """Twice the input takes four times as long."""
    with pytest.raises(AssertionError, match="times as long"):
        assert_linear(_steps, lambda size: size * size // 100)


def test_input_that_costs_far_more_than_ordinary_input_is_found() -> None:
    """Linear cost is not enough if its factor is large."""
    with pytest.raises(AssertionError, match="ordinary input"):
        assert_linear(_steps, lambda size: 50 * size, ordinary=lambda size: size)
