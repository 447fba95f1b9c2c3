"""The rule class, and predicates that several rule modules share.

All patterns use ASCII classes, so that `\\d` and `\\w` mean the same in every engine. `\\x1e` is the boundary between the
parts of a message. Only a rule that is meant to continue in the next part may match it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from compact.redaction.findings import Kind
from compact.redaction.randomness import is_key_material, looks_random

__all__ = [
    "GAP",
    "HAS_DIGIT",
    "MIN_RUN_CHARS",
    "NOT_IN_WORD",
    "Rule",
    "around",
    "before_digit",
    "before_random",
    "caseless",
    "is_key_material",
    "looks_random",
    "near",
    "verbose",
]

NOT_IN_WORD = r"(?<![A-Za-z0-9])"
GAP = r"[ \t\r\n]"
"""White space within one part."""

MIN_RUN_CHARS = 40
"""The length from which on a run of letters, digits, `+` and `/` may be a key."""
Group = Literal["words", "numbers", "runs", "phrases"]
"""Hyperscan has a database for each group of hints. One database for hints with and without words is twice as slow."""
HAS_DIGIT = re.compile(r"[0-9]")


@dataclass(frozen=True, slots=True)
class Rule:
    """Mask the `secret` group of `pattern`, or the whole match, wherever it matches and `accepts` returns True.

    A match contains one of the literals, in any case, and starts at most `reach` characters before the end of that
    literal. `hints` are expressions for Hyperscan that are more selective than the literals: one of them matches wherever
    `pattern` does, and ends at most `reach` characters after its start. Without Hyperscan, a rule without literals is
    tried everywhere.

    A pattern must be able to match, at least in part, in the `lookahead` characters after the literal or hint. With
    `first_words`, which are in lower case, every match starts with one of them. The pattern is then only tried where they
    are, which is faster than a search.

    If `starts_with_literal` is set, every match starts with one of the literals, and the pattern is only tried there.
    Then each hint belongs to the literal at the same index, and ends `hint_tail` characters after it.

    `run_chars` are the possible lengths of the run of letters, digits, `+` and `/` in which a match starts, within its
    first `MIN_RUN_CHARS` characters. One of these is a digit. It replaces literals and hints.

    `rest` matches what may follow an accepted secret and belongs to it. A pattern with `accepts` must only match a limited
    number of characters, because a rejected value may contain the start of the next match.

    `spans` returns the spans to mask, if they are not a group of the match. `decode` returns the plain text of an
    encoded match, which is then masked if that text contains a secret. After a rejected match, the search continues at
    its second character, or at its end if `is_whole` is set.

    `group` is the group of its hints. A hint without a literal of three or more characters belongs to another group than
    `words`, together with those that start alike.
    """

    name: str
    kind: Kind
    literals: tuple[str, ...]
    pattern: re.Pattern[str]
    accepts: Callable[[re.Match[str]], bool] | None = None
    hints: tuple[str, ...] = ()
    reach: int = 40
    lookahead: int = 64
    first_words: tuple[str, ...] = ()
    starts_with_literal: bool = False
    hint_tail: int = 0
    run_chars: range | None = None
    rest: re.Pattern[str] | None = None
    spans: Callable[[re.Match[str]], list[tuple[int, int]]] | None = None
    decode: Callable[[re.Match[str]], str | None] | None = None
    is_whole: bool = False
    group: Group = "words"


def verbose(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Compile a pattern in verbose mode with ASCII classes."""
    return re.compile(pattern, flags | re.VERBOSE | re.ASCII)


def caseless(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in verbose mode that ignores case."""
    return verbose(pattern, re.IGNORECASE)


def before_digit(chars: str) -> str:
    """Return a lookahead for a digit in the first 128 characters of a value, after characters of a class.

    A value without one is no key material. Testing it in the pattern is several times as fast as rejecting the match.
    """
    return rf"(?=[{chars}]{{0,127}}+[0-9])"


def before_random(chars: str) -> str:
    """Return a lookahead for a value that has a digit, or small and capital letters, in its first 64 characters.

    `chars` are the other characters of the value. `looks_random` rejects all other values.
    """
    return rf"(?-i:(?=[A-Za-z{chars}]{{0,63}}+[0-9]|(?=[A-Z{chars}]{{0,63}}+[a-z])[a-z{chars}]{{0,63}}+[A-Z]))"


def around(match: re.Match[str], *, before: int, after: int) -> str:
    """Return the text around a match in lower case, as far as it is in the same part."""
    text = match.string
    start, end = match.span()
    head = text[max(0, start - before) : start].rpartition("\x1e")[2]
    tail = text[end : end + after].partition("\x1e")[0]
    return f"{head}\n{tail}".lower()


def near(match: re.Match[str], words: re.Pattern[str], *, before: int, after: int = 0) -> bool:
    """True if one of the words is near a match, in the same part.

    The pattern must be in lower case and start with literals, which makes the search several times as fast.
    """
    return words.search(around(match, before=before, after=after)) is not None
