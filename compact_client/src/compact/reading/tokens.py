"""Estimate tokens without a vocabulary."""

from __future__ import annotations

from collections.abc import Callable

CountTokens = Callable[[str], int]


def estimate_tokens(text: str) -> int:
    """Estimate the token count of a text: slightly high for prose, about right for code and ids."""
    return round(len(text.encode("utf-8", "replace")) / 3.3) + 1
