"""Rank chunks of text for a query. Pure functions.

A chunk is worth more the rarer the matched terms are, the closer together they are in the query, and the more it says
that the prompt does not.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, Protocol

from compact.recall.terms import find_term, long_tokens

# Terms of a query that stand together are a better sign than the same terms spread over all of it.
_WINDOW_WORDS: Final = 30
_FULL_QUERY_WEIGHT: Final = 0.1
_NEIGHBOR_WEIGHT: Final = 0.05
_CONTEXT_WEIGHT: Final = 0.3
_IN_PROMPT_WEIGHT: Final = 0.2
_NOVELTY_WEIGHT: Final = 30.0
_RECENCY_WEIGHT: Final = 0.05
_MIN_TERMS: Final = 6
_MAX_CHUNKS: Final = 16
_UNKNOWN_TERM: Final = 0.01


@dataclass(slots=True, eq=False)
class Chunk:
    """A few lines of a source."""

    source: int
    start: int
    end: int
    words: AbstractSet[str] | None = None
    """The longer words and names, after a search has read them."""

    def read_words(self, text: str) -> AbstractSet[str]:
        """Return the longer words and names of this chunk, which can say something new. `text` is its source's."""
        if self.words is None:
            self.words = set(long_tokens(text[self.start : self.end].lower()))
        return self.words


@dataclass(slots=True, eq=False)
class Section:
    """A part of a source that the index can find."""

    source: int
    place: int
    """Its place among the sections of the source."""
    start: int
    end: int
    chunks: Sequence[Chunk] = ()
    """Its lines, after a search has read them."""
    names: Mapping[str, str] | None = None
    """Its names, after a search has read them."""


class Text(Protocol):
    """A source with a text."""

    @property
    def text(self) -> str: ...


@dataclass(slots=True, eq=False)
class RankedChunk:
    """A chunk and its worth for one query."""

    chunk: Chunk
    score: float
    novel: AbstractSet[str]
    """The longer terms that the prompt does not have."""


def rarity(frequency: int, total: int) -> float:
    """Return the weight of a term that `frequency` of `total` sections have."""
    if not frequency:
        return _UNKNOWN_TERM
    return math.log((total - frequency + 0.5) / (frequency + 0.5) + 1) ** 2


class QueryWeights:
    """The weight of each term of a query, and the windows of the query that contain it."""

    def __init__(self, words: Sequence[Sequence[str]], weights: Mapping[str, float]) -> None:
        windows: dict[str, dict[int, None]] = {}
        for index, terms in enumerate(words):
            half = index // (_WINDOW_WORDS // 2)
            for term in terms:
                if term in weights:
                    numbers = windows.setdefault(term, {})
                    numbers[half] = None
                    if half:
                        numbers[half - 1] = None
        self._windows = {term: (weights[term], tuple(numbers)) for term, numbers in windows.items()}
        self._window_count = len(words) // (_WINDOW_WORDS // 2) + 1

    def match(self, own: Iterable[str], context: Iterable[str] = ()) -> float:
        """Return the weight of the query's terms that a text or its context has, most of it in the best window."""
        sums = [0.0] * self._window_count
        total = 0.0
        for terms, factor in ((own, 1.0), (context, _CONTEXT_WEIGHT)):
            for term in terms:
                weight, windows = self._windows[term]
                weight *= factor
                total += weight
                for window in windows:
                    sums[window] += weight
        return max(sums) + _FULL_QUERY_WEIGHT * total


def rank_sections(
    sections: Iterable[tuple[Section, Sequence[str]]],
    common: Sequence[str],
    sources: Sequence[Text],
    weights: QueryWeights,
    visible: Collection[int],
    known_words: AbstractSet[str],
) -> list[RankedChunk]:
    """Return the best chunks of sections, each with its worth. The model asks for what it cannot see.

    Each section comes with the rare terms that it has, in its text or in its context. Every section may have the
    common terms.
    """
    matches: list[tuple[float, Chunk]] = []
    for section, terms in sections:
        matches += _match_chunks(section, sources[section.source].text, terms, common, weights)
    ranked = []
    for match, chunk in heapq.nlargest(_MAX_CHUNKS, matches, key=itemgetter(0)):
        own = chunk.read_words(sources[chunk.source].text)
        novel = own - known_words
        value = 1 + _NOVELTY_WEIGHT * len(novel) / (_MIN_TERMS + len(own))
        value *= 1 + _RECENCY_WEIGHT * chunk.source / len(sources)
        value *= _IN_PROMPT_WEIGHT if chunk.source in visible else 1.0
        ranked.append(RankedChunk(chunk, match * value, novel))
    return ranked


def _match_chunks(
    section: Section, text: str, terms: Sequence[str], common: Sequence[str], weights: QueryWeights
) -> list[tuple[float, Chunk]]:
    """Return the chunks of a section that have terms of the query, or are next to one that has."""
    chunks = section.chunks
    own, context = _terms_by_chunk(
        text[section.start : section.end].lower(),
        terms,
        common,
        [chunk.start - section.start for chunk in chunks],
    )
    least = weights.match((), context) if context else 0.0
    matches = [least] * len(chunks)
    for place, matched in own.items():
        matches[place] = weights.match(matched, context)
    last = len(chunks) - 1
    result = []
    for index, match in enumerate(matches):
        before = matches[index - 1] if index else 0.0
        after = matches[index + 1] if index < last else 0.0
        smoothed = match + _NEIGHBOR_WEIGHT * (before + after)
        if smoothed > 0:
            result.append((smoothed, chunks[index]))
    return result


def _terms_by_chunk(
    lower: str, terms: Sequence[str], common: Sequence[str], starts: Sequence[int]
) -> tuple[dict[int, list[str]], list[str]]:
    """Return the terms of each chunk, by the place at which a term begins, and those that only the context has."""
    own: dict[int, list[str]] = {}
    context: list[str] = []
    last = len(starts) - 1
    for term in dict.fromkeys((*terms, *common)):
        index = find_term(lower, term)
        if index < 0 and term in terms:
            context.append(term)
        while index >= 0:
            place = bisect_right(starts, index) - 1
            own.setdefault(place, []).append(term)
            # The next chunk may have it too.
            index = find_term(lower, term, starts[place + 1]) if place < last else -1
    return own, context
