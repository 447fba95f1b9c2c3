"""The rule class, and predicates that several rule modules share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["secret", "pii"]

NOT_IN_WORD = r"(?<![A-Za-z0-9])"


@dataclass(frozen=True, slots=True)
class Rule:
    """Mask the `secret` group of `pattern`, or the whole match, wherever it matches and `accepts` returns True.

    An anchored pattern is matched exactly where a literal starts. Otherwise the literals only decide whether to search
    the text at all, and a rule without literals always searches. `before` lists characters that also belong to the
    secret if they directly precede it, up to 64 of them, such as the name before an @.
    """

    name: str
    kind: Kind
    literals: tuple[str, ...]
    pattern: re.Pattern[str]
    accepts: Callable[[re.Match[str]], bool] | None = None
    anchored: bool = True
    before: str = ""


def verbose(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Compile a pattern in verbose mode."""
    return re.compile(pattern, flags | re.VERBOSE)


def looks_random(value: str) -> bool:
    """True if a value mixes letters and digits, or is long and in mixed case."""
    has_digit = any(char.isdigit() for char in value)
    has_letter = any(char.isalpha() for char in value)
    return (has_digit and has_letter) or (len(value) >= 16 and value.lower() != value != value.upper())
