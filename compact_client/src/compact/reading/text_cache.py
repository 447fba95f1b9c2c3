"""Remember the results of a pure function by text.

The summarizer, the retention check and the next compaction read the same texts. A cache is limited by the characters of
its texts, and not by their number, because one pass over a long history would evict each entry before its next use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

_MAX_SHARE: Final = 8  # A text above this fraction of the limit is not kept.


class TextCache(dict[str, T]):
    """Maps texts to the results of a function, which runs on first access. Later lookups run entirely in C."""

    def __init__(self, function: Callable[[str], T], *, max_chars: int) -> None:
        self._function = function
        self._max_chars = max_chars
        self._chars = 0

    def __missing__(self, text: str) -> T:
        result = self._function(text)
        if len(text) * _MAX_SHARE > self._max_chars:
            return result
        self._chars += len(text)
        # Clearing the whole cache is cheaper than tracking an eviction order, and entries are cheap to rebuild.
        if self._chars > self._max_chars:
            self.clear()
            self._chars = len(text)
        self[text] = result
        return result
