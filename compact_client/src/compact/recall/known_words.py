"""The words and names of a prompt. A recall prefers what the model cannot see there."""

from __future__ import annotations

from compact.recall.terms import long_tokens, name_of


class KnownWords:
    """The longer words of a prompt, and its names in the form in which a recall lists them, in lower case."""

    def __init__(self) -> None:
        self.words: set[str] = set()
        self._tokens: set[str] = set()

    def read(self, text: str) -> None:
        """Add the words of a text."""
        tokens = set(long_tokens(text)) - self._tokens
        self._tokens |= tokens
        self.words.update(map(str.lower, tokens))
        self.words.update(key for key, _ in filter(None, map(name_of, tokens)))
