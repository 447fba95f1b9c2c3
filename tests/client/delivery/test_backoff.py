"""Delays between delivery attempts."""

from __future__ import annotations

import pytest
from compact.delivery.backoff import Backoff, parse_retry_after


def test_delay_doubles_up_to_the_maximum() -> None:
    """Each delay is between half of its ceiling and the ceiling, which doubles until the maximum."""
    backoff = Backoff(max_s=4.0)
    for ceiling in (0.5, 1.0, 2.0, 4.0, 4.0):
        assert ceiling / 2 <= backoff.fail() <= ceiling
    assert 0 < backoff.remaining_s <= 4.0
    backoff.reset()
    assert (backoff.failures, backoff.remaining_s) == (0, 0.0)


def test_retry_after_replaces_the_delay() -> None:
    """The server's delay is used, up to the maximum."""
    backoff = Backoff(max_s=4.0)
    assert backoff.fail(0.25) == 0.25
    assert backoff.fail(60.0) == 4.0


@pytest.mark.parametrize(
    ("header", "seconds"), [("1.5", 1.5), ("-1", 0.0), (None, None), ("Wed, 21 Oct 2026 07:28:00 GMT", None)]
)
def test_retry_after_header_is_parsed(header: str | None, seconds: float | None) -> None:
    """Only the form in seconds is supported."""
    assert parse_retry_after(header) == seconds
