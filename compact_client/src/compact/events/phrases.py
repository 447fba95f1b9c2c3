"""Phrases in the sentences of events. `static/js/format.js` writes counts and percents in the same way."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def format_count(number: int, noun: str) -> str:
    """1 message, 2 messages."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_usage(tokens: int, window: int) -> str:
    """109,312 of 128,000 tokens (85.4%)."""
    return f"{tokens:,} of {window:,} tokens ({tokens / window:,.1%})" if window else f"{tokens:,} tokens"


def format_percent(value: float) -> str:
    """0.854 → 85.4%."""
    return f"{value:.1%}".replace(".0%", "%")


def format_share(part: int, total: int) -> str:
    """A part of a total in whole percent. It is never 0% of something, and never 100% if something is missing."""
    if not total:
        return "100%"
    # Half is rounded up, as in JavaScript.
    whole = math.floor(part / total * 100 + 0.5)
    if whole in (0, 100) and part not in (0, total):
        return f"{min(max(part / total * 100, 0.1), 99.9):.1f}%"
    return f"{whole}%"


def format_counts(total: int, kept: int) -> str:
    """196 of 265 (74%), where a heading says what is counted."""
    return f"{kept:,} of {total:,} ({format_share(kept, total)})"


def format_facts(total: int, kept: int) -> str:
    """196 of 265 facts kept (74%)."""
    return f"{kept:,} of {total:,} facts kept ({format_share(kept, total)})"


def format_reduction(before: int | None, after: int | None) -> str:
    """9,000 → 1,000 tokens. A size that was not reported is a question mark."""
    return f"{format_number(before)} → {format_number(after)} tokens"


def format_number(number: int | None) -> str:
    """12,345, or a question mark if it was not reported."""
    return "?" if number is None else f"{number:,}"


def join_parts(start: str | None, end: Any) -> str:
    """Start: end. Either may be missing."""
    return ": ".join(str(part) for part in (start, end) if part)


def detail(details: Any, name: str) -> Any:
    """Return one of the details of an event, which any client may have sent in any form."""
    return details.get(name) if isinstance(details, Mapping) else None


def is_count(value: Any) -> bool:
    """True for an integer."""
    return isinstance(value, int) and not isinstance(value, bool)


def describe_removal(messages: int) -> str:
    """The 4 oldest messages were removed."""
    if messages == 1:
        return "the oldest message was removed"
    return f"the {messages:,} oldest messages were removed" if messages else "the oldest messages were removed"
