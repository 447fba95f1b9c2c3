"""Conditions that a test waits for while the page runs."""

from __future__ import annotations

import time
from collections.abc import Callable

from playwright.sync_api import Locator, Page

TIMEOUT_S = 60.0


def wait_until(page: Page, condition: Callable[[], bool]) -> None:
    """Handle the events of the page until the condition holds. Fail after the timeout.

    Use this instead of `page.wait_for_function`. The content security policy of the pages blocks its second attempt.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        page.wait_for_timeout(50)


def is_below(row: Locator, head: Locator) -> bool:
    """Return True if a row is drawn and not covered by the head of its table."""
    place, above = row.bounding_box(), head.bounding_box()
    return place is not None and above is not None and place["y"] >= above["y"] + above["height"]
