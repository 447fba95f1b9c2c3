"""What a compaction cost and what it saved since. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewer.kinds import PRUNED, SUMMARY
from viewer.numbers import to_count
from viewer.sessions.checks import Check


@dataclass(frozen=True, slots=True)
class CacheEffect:
    """What a compaction cost and what it saved since."""

    freed: int
    invalidated: int
    break_even: int | None
    calls: int
    latency_ms: float | None
    sentence: str


def cache_effect(check: Check, calls: int) -> CacheEffect:
    freed = max(0, check.before - (check.after if check.after is not None else check.before))
    cache = check.value("cache", PRUNED)
    invalidated = to_count(cache.get("invalidated_tokens")) if isinstance(cache, Mapping) else 0
    break_even = cache.get("break_even_calls") if isinstance(cache, Mapping) else None
    latency = check.value("latency_ms", SUMMARY)
    told = f"Each later prompt is {freed:,} tokens smaller."
    if invalidated:
        told += f" {invalidated:,} tokens fell out of the provider's prompt cache and were sent anew."
    if isinstance(break_even, int | float):
        needed = int(break_even)
        done = f"{calls} so far: it has." if calls >= needed else f"{calls} so far: not yet."
        told += f" It pays for itself after {needed} {'call' if needed == 1 else 'calls'}; {done}"
    return CacheEffect(
        freed=freed,
        invalidated=invalidated,
        break_even=int(break_even) if isinstance(break_even, int | float) else None,
        calls=calls,
        latency_ms=float(latency) if isinstance(latency, int | float) else None,
        sentence=told,
    )
