"""Numbers in sentences and tables."""

from __future__ import annotations

import pytest

from viewer.numbers import format_short


@pytest.mark.parametrize(
    ("value", "text"),
    [(999, "999"), (9_500, "9.5k"), (13_604, "13.6k"), (16_000, "16k"), (999_499, "999k"), (999_500, "1M")],
)
def test_large_numbers_have_at_most_three_digits(value: int, text: str) -> None:
    """The same as in `format.test.mjs`, because a page shows both."""
    assert format_short(value) == text
