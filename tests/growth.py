"""Measure how the cost of a function grows with its input, to prove that hostile input takes linear time.

    assert_linear(decode, lambda size: b'{"a":"' + b'\\\\"' * (size // 2), ordinary=ordinary_body)

Cost is CPU time of this process, the least of several runs, so other load on the machine does not matter. A cost above
a limit is measured again, and then at twice the size, before the check fails. Caches that others use, too, disturb one
size, but a cost that grows faster than its input is above the limit at both.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

T = TypeVar("T")

MAX_GROWTH = 3.0
"""The highest cost of twice the input, relative to the input, as the mean of three doublings.

Linear cost doubles and quadratic cost quadruples. Crossing the size of a cache, while others use it too, has cost 2.7.
"""
MAX_SHARE = 20.0
"""The highest cost of hostile input, relative to ordinary input of the same size."""
_DOUBLINGS = 3
_FIRST_SIZE = 4_000
_MAX_FIRST_SIZE = 64_000
# Shorter runs are not compared, because the clock and the caches decide how long they take.
_MIN_S = 0.001
# Each cost is the least of this many runs. Expensive runs are repeated less often.
_RUNS, _ENOUGH_S = 3, 0.1
_ATTEMPTS = 4


def assert_linear(
    run: Callable[[T], object],
    make: Callable[[int], T],
    *,
    ordinary: Callable[[int], T] | None = None,
    first_size: int = _FIRST_SIZE,
) -> None:
    """Fail if the cost of `run(make(size))` grows faster than linearly, or is far above that of `run(ordinary(size))`.

    The size is doubled three times. Measuring starts at the first size that takes a millisecond, so that a quadratic
    function fails quickly and a cheap one is measured at all. The mean of the doublings counts, because a single one
    may cross the size of a cache.
    """
    size = first_size
    while size < _MAX_FIRST_SIZE and cost_s(run, make(size)) < _MIN_S:
        size *= 2
    _check_twice(lambda at: _assert_growth(run, make, at), size)
    if ordinary is not None:
        _check_twice(lambda at: _assert_share(run, make(at), ordinary(at), at), size)


def _check_twice(check: Callable[[int], None], size: int) -> None:
    with suppress(AssertionError):
        return check(size)
    return check(2 * size)


def cost_s(run: Callable[[T], object], value: T) -> float:
    """Return the CPU seconds of the fastest of several runs."""
    fastest = float("inf")
    total = 0.0
    with undisturbed():
        for _ in range(_RUNS):
            began = time.process_time()
            run(value)
            elapsed = time.process_time() - began
            fastest, total = min(fastest, elapsed), total + elapsed
            if total > _ENOUGH_S:
                break
    return fastest


@contextmanager
def undisturbed() -> Iterator[None]:
    """Measure without garbage collection, and without coverage, which makes Python code slower but not C code."""
    trace = sys.gettrace()
    gc.disable()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(trace)
        gc.enable()


def _assert_growth(run: Callable[[T], object], make: Callable[[int], T], size: int) -> None:
    smaller, larger = make(size), make(size * 2**_DOUBLINGS)
    before, after, growth = float("inf"), float("inf"), 0.0
    for _ in range(_ATTEMPTS):
        before, after = min(before, cost_s(run, smaller)), min(after, cost_s(run, larger))
        growth = (after / before) ** (1 / _DOUBLINGS)
        if after < _MIN_S or growth <= MAX_GROWTH:
            return
    raise AssertionError(
        f"{size:,} → {size * 2**_DOUBLINGS:,} takes {before * 1000:,.1f} → {after * 1000:,.1f} ms of CPU. "
        f"Each doubling takes {growth:.1f} times as long. The limit is {MAX_GROWTH}."
    )


def _assert_share(run: Callable[[T], object], hostile: T, ordinary: T, size: int) -> None:
    hostile_s, ordinary_s = float("inf"), float("inf")
    for _ in range(_ATTEMPTS):
        hostile_s, ordinary_s = min(hostile_s, cost_s(run, hostile)), min(ordinary_s, cost_s(run, ordinary))
        if hostile_s < _MIN_S or hostile_s <= MAX_SHARE * ordinary_s:
            return
    raise AssertionError(
        f"Hostile input of size {size:,} takes {hostile_s * 1000:,.1f} ms of CPU, "
        f"ordinary input {ordinary_s * 1000:,.1f} ms. "
        f"It takes {hostile_s / ordinary_s:.0f} times as long. The limit is {MAX_SHARE:.0f}."
    )
