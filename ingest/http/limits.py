"""How much one key may send, and how much one process may hold.

Limits are counted where they are enforced, in each process: a promise about this process's memory and processor, not
an account of what a customer used.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from ingest.http.errors import TooMany, Unavailable

T = TypeVar("T")

# More at once would only share one processor, each with a body in memory.
_aside = ThreadPoolExecutor(max_workers=2, thread_name_prefix="ingest-aside")
# Keys that were quiet for so long that their buckets are full again need no bucket.
_REMEMBERED_KEYS = 10_000
_BURST_S = 2.0


async def aside(function: Callable[..., T], *arguments: Any) -> T:
    """Run what would hold the event loop up on a thread; two at a time, the others wait."""
    return await asyncio.get_running_loop().run_in_executor(_aside, function, *arguments)


class Allowance:
    """A rate for each key: a bucket that fills steadily and holds two seconds' worth."""

    def __init__(self, per_second: float, unit: str) -> None:
        self._rate = per_second
        self._unit = unit
        self._buckets: OrderedDict[int, tuple[float, float]] = OrderedDict()

    def take(self, key_id: int, amount: float) -> None:
        """Take from the key's bucket, or refuse with the time after which it is worth another try."""
        if self._rate <= 0:
            return
        now = time.monotonic()
        full = self._rate * _BURST_S
        level, since = self._buckets.get(key_id, (full, now))
        level = min(full, level + (now - since) * self._rate)
        # A request larger than the bucket passes when the bucket is full, and leaves a debt.
        if level < min(amount, full):
            self._buckets[key_id] = (level, now)
            wait_s = int((min(amount, full) - level) / self._rate) + 1
            raise TooMany(f"this key may send {self._rate:,.0f} {self._unit} a second", retry_after_s=wait_s)
        self._buckets[key_id] = (level - amount, now)
        self._buckets.move_to_end(key_id)
        if len(self._buckets) > _REMEMBERED_KEYS:
            self._buckets.popitem(last=False)


class Room:
    """How many bytes of bodies a process holds at once."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.held_bytes = 0

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        if self.held_bytes and self.held_bytes + size > self._max_bytes:
            raise Unavailable("too many large requests at once")
        self.held_bytes += size
        try:
            yield
        finally:
            self.held_bytes -= size
