"""The cost of a compaction and its savings so far. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewer.kinds import PRUNED, SUMMARY
from viewer.numbers import format_count, to_count
from viewer.sessions.checks import Check


@dataclass(frozen=True, slots=True)
class CacheEffect:
    """Tokens that a compaction freed, and cached tokens that it invalidated."""

    freed: int
    invalidated: int
    break_even: int | None
    calls: int
    latency_ms: float | None
    sentence: str


def cache_effect(check: Check, calls: int) -> CacheEffect:
    """Return the effect of a compaction after `calls` later calls."""
    freed = max(0, check.freed_tokens)
    cache = check.value("cache", PRUNED)
    invalidated = to_count(cache.get("invalidated_tokens")) if isinstance(cache, Mapping) else 0
    calls_needed = cache.get("break_even_calls") if isinstance(cache, Mapping) else None
    break_even = int(calls_needed) if isinstance(calls_needed, int | float) else None
    latency = check.value("latency_ms", SUMMARY)
    return CacheEffect(
        freed=freed,
        invalidated=invalidated,
        break_even=break_even,
        calls=calls,
        latency_ms=float(latency) if isinstance(latency, int | float) else None,
        sentence=" ".join(_sentences(freed, invalidated, break_even, calls)),
    )


def _sentences(freed: int, invalidated: int, break_even: int | None, calls: int) -> list[str]:
    sentences = [f"Each later prompt is {freed:,} tokens smaller."]
    if invalidated:
        sentences.append(f"{invalidated:,} tokens were dropped from the provider's prompt cache and sent again.")
    if break_even is not None:
        state = "has broken even" if calls >= break_even else "has not broken even yet"
        sentences.append(f"It breaks even after {format_count(break_even, 'call')}. After {calls} so far, it {state}.")
    return sentences
