"""Wait for a condition of the test while the page runs."""

from __future__ import annotations

import time
from collections.abc import Callable

from playwright.sync_api import Page

TIMEOUT_S = 30.0


def wait_until(page: Page, condition: Callable[[], bool]) -> None:
    """Handle the events of the page until the condition holds. Fail after the timeout."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        page.wait_for_timeout(50)
