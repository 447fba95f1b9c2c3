"""Rate limits for each key and project, and a limit on the bytes one process holds.

Limits are enforced in each process. They protect the process's memory and CPU. They do not measure a customer's usage.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from ingest.errors import RateLimited, Unavailable

T = TypeVar("T")

# More threads would only compete for the CPU, each with a body in memory.
_executor = ThreadPoolExecutor(max_workers=2, thread_name_prefix="ingest-worker")
_MAX_BUCKETS = 10_000
_BURST_S = 2.0


async def run_in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Run a function that would block the event loop on one of two worker threads."""
    return await asyncio.get_running_loop().run_in_executor(_executor, function, *arguments)


class RateLimit:
    """A token bucket for each key or project that holds two seconds' worth of tokens."""

    def __init__(self, per_second: float, unit: str, *, owner: str = "key") -> None:
        self._rate = per_second
        self._unit = unit
        self._owner = owner
        self._buckets: OrderedDict[int, tuple[float, float]] = OrderedDict()

    def consume(self, key_id: int, amount: float) -> None:
        """Take `amount` tokens from the key's bucket, or raise `RateLimited` with the time to wait."""
        if self._rate <= 0:
            return
        now = time.monotonic()
        capacity = self._rate * _BURST_S
        level, updated_at = self._buckets.get(key_id, (capacity, now))
        level = min(capacity, level + (now - updated_at) * self._rate)
        # A request larger than the bucket is accepted when the bucket is full. The level becomes negative.
        required = min(amount, capacity)
        if level < required:
            self._buckets[key_id] = (level, now)
            wait_s = int((required - level) / self._rate) + 1
            raise RateLimited(
                f"This {self._owner} may send {self._rate:,.0f} {self._unit} per second. Retry after {wait_s} s.",
                retry_after_s=wait_s,
            )
        self._buckets[key_id] = (level - amount, now)
        self._buckets.move_to_end(key_id)
        # The least recently used bucket is full again by now, so dropping it changes nothing.
        if len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)


class MemoryLimit:
    """A limit on the bytes of request bodies that a process holds at once. One project may use half of it."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._by_project: Counter[int] = Counter()
        self.held_bytes = 0

    @contextmanager
    def reserve(self, size: int, project_id: int = 0) -> Iterator[None]:
        """Reserve `size` bytes, or raise `RateLimited` or `Unavailable`.

        A single request of any size is always accepted.
        """
        if self._by_project[project_id] and self._by_project[project_id] + size > self._max_bytes // 2:
            raise RateLimited("This project has too many large requests in progress. Retry after 1 s.", retry_after_s=1)
        if self.held_bytes and self.held_bytes + size > self._max_bytes:
            raise Unavailable("The server is handling too many large requests. Try again later.")
        self.held_bytes += size
        self._by_project[project_id] += size
        try:
            yield
        finally:
            self.held_bytes -= size
            self._by_project[project_id] -= size
            if not self._by_project[project_id]:
                del self._by_project[project_id]
