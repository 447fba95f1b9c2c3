"""Parse numbers that agents send, and format numbers for sentences.

Agents may send any JSON value where a number is expected, so parsing never fails.
"""

from __future__ import annotations

import math
from typing import Any

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


def format_short(value: float) -> str:
    """Abbreviate to at most three digits: 13604 → 13.6k, 109312 → 109k. The same as `shortTokens` in `format.js`."""
    for size, unit in _UNITS:
        if abs(value) >= _ROUNDS_UP * size:
            number = value / size
            return (f"{number:.1f}".removesuffix(".0") if abs(number) < 100 else f"{number:,.0f}") + unit
    return f"{value:,.0f}"


def format_percent(value: float) -> str:
    """0.854 → 85.4%."""
    return f"{value:.1%}".replace(".0%", "%")


def format_facts(total: int, kept: int) -> str:
    """196 of 265 facts kept (74%). `factsKept` in `static/js/format.js` writes the same."""
    return f"{kept:,} of {total:,} facts kept ({format_share(kept, total)})"


def format_counts(total: int, kept: int) -> str:
    """196 of 265 (74%), where a heading says what is counted."""
    return f"{kept:,} of {total:,} ({format_share(kept, total)})"


def format_share(part: int, total: int) -> str:
    """A part of a total in whole percent. It is never 0% of something, and never 100% if something is missing."""
    if not total:
        return "100%"
    # Half is rounded up, as in JavaScript.
    whole = math.floor(part / total * 100 + 0.5)
    if whole in (0, 100) and part not in (0, total):
        return f"{min(max(part / total * 100, 0.1), 99.9):.1f}%"
    return f"{whole}%"


def format_usage(tokens: int, window: int) -> str:
    """109,312 of 128,000 tokens (85.4%)."""
    return f"{tokens:,} of {window:,} tokens ({tokens / window:,.1%})" if window else f"{tokens:,} tokens"


def format_count(number: int, noun: str) -> str:
    """1 message, 2 messages."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_age(minutes: int) -> str:
    """9 → 9 min, 200 → 3 h."""
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 1440 else f"{minutes // 1440} d"
