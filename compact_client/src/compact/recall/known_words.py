"""The words and names of a prompt. A recall prefers what the model cannot see there."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from compact.recall.terms import SEPARATOR_CHARS, names_of, rough_tokens


class KnownWords:
    """The words of a prompt, and its names in the form in which a recall lists them, in lower case."""

    def __init__(self) -> None:
        self.words: set[str] = set()
        self._tokens: set[str] = set()

    def read(self, texts: Iterable[str]) -> None:
        """Add the words of texts. Many at once take less time than one by one."""
        tokens = set(chain.from_iterable(map(rough_tokens, texts))) - self._tokens
        self._tokens |= tokens
        self.words.update(token.strip(SEPARATOR_CHARS).lower() for token in tokens)
        self.words.update(key for key, _ in names_of(tokens))
