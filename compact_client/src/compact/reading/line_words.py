"""The words of lines, to determine if they still say a sentence."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Final

_WORD: Final = re.compile(r"[^\W_][\w./:-]{2,}")
_LETTERS: Final = re.compile(r"[^\W_]{3,}")
_STEM_CHARS: Final = 5
_STOP: Final = (
    "the and for that this with from are was were will would should could have has had not but you your our its it's"
    " they them then than there these those what when which who how all any can may also into onto about please must"
    " never always only don't"
)
_STOP_WORDS: Final = frozenset(_STOP.split())


def words(text: str) -> set[str]:
    """Return the words of a text in lower case."""
    return set(_WORD.findall(text.lower()))


def stems(text: str) -> set[str]:
    """Return the beginnings of the words that say something, so that `migration` and `migrations` are the same."""
    return {word[:_STEM_CHARS] for word in _LETTERS.findall(text.lower()) if word not in _STOP_WORDS}


class LineWords:
    """The words of lines. A line says a sentence if it has most of its words.

    The built-in summarizer copies lines, so it is checked by `words`. A model writes its own sentences, which are
    checked by `stems`.
    """

    def __init__(
        self, lines: Iterable[str], *, split: Callable[[str], set[str]], min_share: float, min_words: int = 1
    ) -> None:
        self._split = split
        self._min_share = min_share
        self._min_words = min_words
        self._lines_by_word: defaultdict[str, list[int]] = defaultdict(list)
        for number, line in enumerate(lines):
            for word in split(line):
                self._lines_by_word[word].append(number)

    def has(self, sentence: str) -> bool:
        """Return True if one line has most words of a sentence."""
        wanted = self._split(sentence)
        if len(wanted) < self._min_words:
            return False
        counts = Counter(number for word in wanted for number in self._lines_by_word.get(word, ()))
        return bool(counts) and max(counts.values()) >= self._min_share * len(wanted)
