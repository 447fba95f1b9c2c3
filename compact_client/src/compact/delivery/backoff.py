"""Retry delays that double with each failure, with jitter and Retry-After."""

from __future__ import annotations

import random
import time

_FIRST_DELAY_S = 0.5


class Backoff:
    """The time of the next attempt.

    A retry library would sleep inside the call. The worker must keep draining its queue between attempts and stop at
    once on shutdown, so it only needs to know how long to wait.
    """

    def __init__(self, max_s: float) -> None:
        self.max_s = max_s
        self.reset()

    def reset(self) -> None:
        """Forget past failures, after a success or in a forked child."""
        self.failures = 0
        self._retry_at = 0.0

    def fail(self, retry_after_s: float | None = None) -> float:
        """Count a failure and return the seconds until the next attempt."""
        self.failures += 1
        ceiling = min(self.max_s, _FIRST_DELAY_S * 2 ** min(self.failures - 1, 10))
        # Jitter keeps many agents from returning to a recovering server at the same moment.
        delay = random.uniform(ceiling / 2, ceiling) if retry_after_s is None else min(retry_after_s, self.max_s)  # noqa: S311
        self._retry_at = time.monotonic() + delay
        return delay

    @property
    def remaining_s(self) -> float:
        """Seconds until the next attempt, 0 if it is due."""
        return max(0.0, self._retry_at - time.monotonic())


def parse_retry_after(value: str | None) -> float | None:
    """Return the seconds of a Retry-After header, or None if it is missing or a date."""
    try:
        return max(0.0, float(value)) if value else None
    except ValueError:
        return None
