"""Exact token counts with the model's vocabulary, offline.

Counts are cached by text, so each text is encoded once.
"""

from __future__ import annotations

from compact.estimators.encodings import CountText, encoding_name, has_fast_counter, load_counter
from compact.estimators.request_counter import RequestCounter

# tiktoken's regex engine recurses on very long texts without a word break. Texts are split far below that length.
_PIECE_CHARS = 200_000
_CACHE_CHARS = 64_000_000


class TiktokenEstimator(RequestCounter):
    """Counts with the model's encoding, or with `o200k_base` if tiktoken does not know the model."""

    name = "tiktoken"

    def __init__(self, encoding: str | None = None) -> None:
        self._encoding_name = encoding
        self._counts: dict[str, dict[str, int]] = {}
        self._cached_chars = 0

    def count_tokens(self, text: str, model: str = "") -> int:
        counts = self._counts_for(model)
        tokens = counts.get(text)
        return self._encode(text, counts, model) if tokens is None else tokens

    def count_by_line(self, text: str, model: str = "") -> int:
        """Return the same number as `count_tokens`, with a cache for each line.

        Faster for a text that is counted repeatedly with small changes, such as a summary being fitted to a limit.
        """
        if (
            "\n" not in text
            or len(text) > _PIECE_CHARS
            or has_fast_counter(self._encoding_name or encoding_name(model))
        ):
            return self.count_tokens(text, model)
        counts = self._counts_for(model)
        tokens = counts.get(text)
        if tokens is None:
            tokens = 0
            for piece in _pieces(text):
                known = counts.get(piece)
                tokens += self._encode(piece, counts, model) if known is None else known
            counts[text] = tokens
            self._cached_chars += len(text)
        return tokens

    def _counts_for(self, model: str) -> dict[str, int]:
        name = self._encoding_name or encoding_name(model)
        counts = self._counts.get(name)
        return self._counts.setdefault(name, {}) if counts is None else counts

    def _encode(self, text: str, counts: dict[str, int], model: str) -> int:
        """Count a text and cache the result."""
        tokens = _count(text, load_counter(self._encoding_name or encoding_name(model)))
        self._cached_chars += len(text)
        # Clearing the whole cache is cheap enough: one pass counts the texts of a live session again.
        if self._cached_chars > _CACHE_CHARS:
            for known in self._counts.values():
                known.clear()
            self._cached_chars = len(text)
        counts[text] = tokens
        return tokens


def _pieces(text: str) -> list[str]:
    """Split a text where no token of either vocabulary crosses the split: before a line that starts with a word.

    In both vocabularies, a token may contain a line break with the punctuation before it and the blank lines after it.
    In `o200k_base`, it may also contain a slash after the line break.
    """
    if "\r" in text:
        return [text]
    first, *rest = text.split("\n")
    pieces = [first]
    for line in rest:
        pieces[-1] += "\n"
        if not line or line[0] == "/" or line.isspace():
            pieces[-1] += line
        else:
            pieces.append(line)
    return pieces


def _count(text: str, count: CountText) -> int:
    if len(text) <= _PIECE_CHARS:
        return count(text)
    return sum(count(text[start : start + _PIECE_CHARS]) for start in range(0, len(text), _PIECE_CHARS))
