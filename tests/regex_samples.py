"""Generate random texts that match a regular expression, also with possessive repeats and lookaround.

Lookaround is not evaluated, so a sample may not match. The caller checks that.

    >>> sample(re.compile(r"key[:=]\\w{3}"), random.Random(1))
    'key=dAu'
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

_ALPHABET = [*map(chr, range(32, 127)), "\n", "\t", "ü", "’", "\x1e"]
_CLASSES: dict[str, Callable[[str], bool]] = {
    "DIGIT": lambda char: char in "0123456789",
    "SPACE": lambda char: char in " \t\n\r\f\v",
    "WORD": lambda char: char.isascii() and (char.isalnum() or char == "_"),
}
_MAX_REPEATS = 45


def sample(pattern: re.Pattern[str], rng: random.Random) -> str:
    """Return a random text that has the form of the pattern."""
    return _Sampler(rng, is_caseless=bool(pattern.flags & re.IGNORECASE)).join(_parse(pattern))


@lru_cache(maxsize=1_000)
def _parse(pattern: re.Pattern[str]) -> Any:
    return parser.parse(pattern.pattern, pattern.flags)


class _Sampler:
    """Writes one text. Groups are kept for later references to them."""

    def __init__(self, rng: random.Random, *, is_caseless: bool) -> None:
        self._rng = rng
        self._is_caseless = is_caseless
        self._groups: dict[int, str] = {}

    def join(self, items: Any) -> str:
        return "".join(self._item(op, value) for op, value in items)

    def _item(self, op: Any, value: Any) -> str:
        writer = getattr(self, f"_write_{str(op).lower()}", None)
        return writer(value) if writer else ""  # An assertion has no text.

    def _write_literal(self, code: int) -> str:
        char = chr(code)
        swapped = char.swapcase()
        return swapped if self._is_caseless and len(swapped) == 1 and self._rng.random() < 0.3 else char

    def _write_not_literal(self, code: int) -> str:
        return self._rng.choice([char for char in _ALPHABET if ord(char) != code])

    def _write_any(self, _: None) -> str:
        return self._rng.choice(_ALPHABET[:95])

    def _write_in(self, items: Sequence[tuple[Any, Any]]) -> str:
        chars, words = _chars_in(tuple(items))
        return self._write_literal(ord(self._rng.choice(words if words and self._rng.random() < 0.8 else chars)))

    def _write_branch(self, value: tuple[Any, list[Any]]) -> str:
        return self.join(self._rng.choice(value[1]))

    def _write_subpattern(self, value: tuple[int | None, int, int, Any]) -> str:
        text = self.join(value[3])
        if value[0] is not None:
            self._groups[value[0]] = text
        return text

    def _write_max_repeat(self, value: tuple[int, int, Any]) -> str:
        least, most, items = value
        most = min(most, least + _MAX_REPEATS)
        chance = self._rng.random()
        count = least if chance < 0.35 else most if chance < 0.45 else self._rng.randint(least, most)
        if 0.45 <= chance < 0.75:
            count = min(count, least + self._rng.randint(0, 4))
        return "".join(self.join(items) for _ in range(count))

    _write_min_repeat = _write_possessive_repeat = _write_max_repeat

    def _write_atomic_group(self, items: Any) -> str:
        return self.join(items)

    def _write_groupref(self, group: int) -> str:
        return self._groups.get(group, "")

    def _write_groupref_exists(self, value: tuple[int, Any, Any]) -> str:
        group, present, absent = value
        return self.join(present if group in self._groups else absent or ())


@lru_cache(maxsize=10_000)
def _chars_in(items: tuple[tuple[Any, Any], ...]) -> tuple[list[str], list[str]]:
    """Return characters of a class, and its letters and digits."""
    is_negated = items[0][0] is ops.NEGATE
    chars = [char for char in _ALPHABET if _is_in(char, items) != is_negated]
    chars = chars or [chr(value if op is ops.LITERAL else value[0]) for op, value in items]
    return chars, [char for char in chars if char.isalnum()]


def _is_in(char: str, items: Sequence[tuple[Any, Any]]) -> bool:
    for op, value in items:
        if op is ops.LITERAL and ord(char) == value:
            return True
        if op is ops.RANGE and value[0] <= ord(char) <= min(value[1], sys.maxunicode):
            return True
        if op is ops.CATEGORY:
            name = str(value)
            kind = next(kind for kind in _CLASSES if name.endswith(kind))
            if _CLASSES[kind](char) != ("NOT" in name):
                return True
    return False
