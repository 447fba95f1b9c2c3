"""The texts of adjacent JSON values, and the changes to these values."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from compact.redaction.known_keys import KnownKeys
from compact.redaction.plain_texts import add_plain_texts
from compact.redaction.tree import Tree


class Forest:
    """The texts of all values in document order. A value becomes a `Tree` if it has unusual keys or has to be changed.

    `trees` are the values with unusual keys and those that were changed, by their index.
    """

    def __init__(self, values: Sequence[Any], keys: KnownKeys) -> None:
        self.texts: list[str] = []
        self.trees: dict[int, Tree] = {}
        self._values = values
        self._keys = keys
        self._first_texts: list[int] = []
        texts = self.texts
        for index, value in enumerate(values):
            first = len(texts)
            self._first_texts.append(first)
            if not add_plain_texts(texts, value if type(value) is tuple else (value,), keys):
                del texts[first:]
                tree = self.trees[index] = Tree(value, keys.clean)
                texts += tree.texts

    def owner(self, index: int) -> int:
        """Return the index of the value that a text belongs to."""
        return bisect_right(self._first_texts, index) - 1

    def replace(self, index: int, text: str) -> None:
        """Replace a text in its value."""
        owner = self.owner(index)
        if owner not in self.trees:
            self.trees[owner] = Tree(self._values[owner], self._keys.clean)
        tree = self.trees[owner]
        tree.replace(tree.places[index - self._first_texts[owner]], text)
