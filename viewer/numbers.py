"""Parse numbers that agents send, and format numbers for sentences.

Agents may send any JSON value where a number is expected, so parsing never fails.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

from compact.events.phrases import (
    format_count,
    format_counts,
    format_facts,
    format_percent,
    format_share,
    format_usage,
)

__all__ = [
    "format_age",
    "format_count",
    "format_counts",
    "format_facts",
    "format_percent",
    "format_share",
    "format_short",
    "format_usage",
    "to_count",
    "to_fraction",
    "to_milliseconds",
]

_ROUNDS_UP = 0.9995  # 999,500 is 1M, not 1,000k
_UNITS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


def to_count(value: Any) -> int:
    """Return `value` as an integer, or 0 if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return 0
    try:
        return int(float(value))
    except (ValueError, OverflowError):
        return 0


def to_fraction(value: Any) -> float:
    """Return a fraction from 0 to 1. Both 0.85 and 85 become 0.85."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    fraction = float(value)
    if math.isnan(fraction):
        return 0.0
    return max(0.0, min(1.0, fraction / 100 if fraction > 1 else fraction))


def to_milliseconds(time: datetime | None) -> int | None:
    """Return a time as JavaScript counts it, in whole milliseconds since 1970."""
    return int(time.timestamp() * 1000) if time else None


def format_short(value: float) -> str:
    """Abbreviate to at most three digits: 13604 → 13.6k, 109312 → 109k. The same as `shortTokens` in `format.js`."""
    for size, unit in _UNITS:
        if abs(value) >= _ROUNDS_UP * size:
            number = value / size
            return (f"{number:.1f}".removesuffix(".0") if abs(number) < 100 else f"{number:,.0f}") + unit
    return f"{value:,.0f}"


def format_age(minutes: int) -> str:
    """9 → 9 min, 200 → 3 h."""
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 1440 else f"{minutes // 1440} d"
