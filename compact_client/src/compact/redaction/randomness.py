"""Tell key material from words."""

from __future__ import annotations

import math
import re
from functools import cache

_HAS_DIGIT_AND_LETTER = re.compile(r"(?=[^0-9]*[0-9])[^A-Za-z]*[A-Za-z]")
_MIXED_CASE = re.compile(r"(?=[^a-z]*[a-z])[^A-Z]*[A-Z]")


def looks_random(value: str) -> bool:
    """True if a value mixes letters and digits, or is long and in mixed case without being made of words."""
    value = value[:64]
    if _HAS_DIGIT_AND_LETTER.match(value):
        return True
    return len(value) >= 16 and _MIXED_CASE.match(value) is not None and _has_runs(value, math.ceil(len(value) / 5))


def is_key_material(value: str) -> bool:
    """True if a value changes so often between letters, capitals and digits that no person wrote it."""
    sample = value[:128]
    return _HAS_DIGIT_AND_LETTER.match(sample) is not None and _has_runs(sample, math.ceil(len(sample) / 3.5))


def _has_runs(value: str, count: int) -> bool:
    """True if a value has at least this many runs of letters in the same case, capitalized words or numbers."""
    return _runs_pattern(count).match(value) is not None


@cache
def _runs_pattern(count: int) -> re.Pattern[str]:
    # A match is several times as fast as a list of runs.
    return re.compile(rf"(?>[^A-Za-z0-9]*(?:[A-Z]?[a-z]+|[A-Z]+|[0-9]+)){{{count}}}")
