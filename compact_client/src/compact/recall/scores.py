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
from dataclasses import dataclass, field
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
_MIN_USEFUL_WEIGHT: Final = 2.0
_MAX_COMMON_TERMS: Final = 8
_MAX_CHUNKS: Final = 80
_UNKNOWN_TERM: Final = 0.01


@dataclass(slots=True, eq=False)
class Chunk:
    """A few lines of a source."""

    source: int
    start: int
    end: int
    terms: frozenset[str] | None = None
    """The longer terms, which can say something new, after a search has read them."""


@dataclass(slots=True, eq=False)
class Section:
    """A part of a source that the index can find."""

    source: int
    start: int
    end: int
    chunks: list[Chunk] = field(default_factory=list)
    """Its lines, after a search has read them."""
    names: tuple[str, ...] | None = None


class Text(Protocol):
    """A source with a text."""

    @property
    def text(self) -> str: ...


@dataclass(slots=True, eq=False)
class RankedChunk:
    """A chunk and its worth for one query."""

    chunk: Chunk
    score: float
    novel: frozenset[str]
    """The longer terms that the prompt does not have."""


def rarity(frequency: int, total: int) -> float:
    """Return the weight of a term that `frequency` of `total` sections have."""
    if not frequency:
        return _UNKNOWN_TERM
    return math.log((total - frequency + 0.5) / (frequency + 0.5) + 1) ** 2


class QueryWeights:
    """The weight of each term of a query, and the windows of the query that contain it."""

    def __init__(self, words: Sequence[Sequence[str]], weights: Mapping[str, float], common: Collection[str]) -> None:
        self._weights = weights
        windows: dict[str, set[int]] = {}
        for index, terms in enumerate(words):
            half = index // (_WINDOW_WORDS // 2)
            for term in terms:
                if term in weights:
                    windows.setdefault(term, set()).update((half, half - 1) if half else (half,))
        self._windows = {term: (weights[term], tuple(numbers)) for term, numbers in windows.items()}
        self._window_count = len(words) // (_WINDOW_WORDS // 2) + 1
        self.common = [term for term in common if weights[term] >= _MIN_USEFUL_WEIGHT][:_MAX_COMMON_TERMS]
        """The rarest terms of which the index does not list the sections."""

    def total(self, terms: Iterable[str]) -> float:
        """Return the sum of the weights of terms."""
        return sum(map(self._weights.__getitem__, terms))

    def windows_of(self, context: Iterable[str]) -> tuple[float, ...]:
        """Return the weight that the context of a section has in each window of the query, and at last in all of it."""
        return self._add((0.0,) * (self._window_count + 1), context, _CONTEXT_WEIGHT)

    def match(self, own: Iterable[str], context: tuple[float, ...]) -> float:
        """Return the weight of the query's terms that a chunk or its context has."""
        *windows, total = self._add(context, own, 1.0)
        return max(windows) + _FULL_QUERY_WEIGHT * total

    def _add(self, sums: tuple[float, ...], terms: Iterable[str], factor: float) -> tuple[float, ...]:
        result = list(sums)
        for term in terms:
            weight, windows = self._windows[term]
            weight *= factor
            result[-1] += weight
            for window in windows:
                result[window] += weight
        return tuple(result)


def rank_sections(
    sections: Iterable[tuple[Section, Collection[str]]],
    sources: Sequence[Text],
    weights: QueryWeights,
    visible: Collection[int],
    known_terms: AbstractSet[str],
) -> list[RankedChunk]:
    """Return the best chunks of sections, each with its worth. The model asks for what it cannot see.

    Each section comes with the rare terms that it has, in its text or in its context.
    """
    matches: list[tuple[float, Chunk]] = []
    for section, terms in sections:
        matches += _match_chunks(section, sources[section.source].text, terms, weights)
    matches = heapq.nlargest(_MAX_CHUNKS, matches, key=itemgetter(0))
    ranked = []
    for match, chunk in matches:
        if chunk.terms is None:
            chunk.terms = long_tokens(sources[chunk.source].text[chunk.start : chunk.end])
        novel = chunk.terms - known_terms
        value = 1 + _NOVELTY_WEIGHT * len(novel) / (_MIN_TERMS + len(chunk.terms))
        value *= 1 + _RECENCY_WEIGHT * chunk.source / len(sources)
        value *= _IN_PROMPT_WEIGHT if chunk.source in visible else 1.0
        ranked.append(RankedChunk(chunk, match * value, novel))
    return ranked


def _match_chunks(
    section: Section, text: str, terms: Collection[str], weights: QueryWeights
) -> list[tuple[float, Chunk]]:
    """Return the chunks of a section that have terms of the query, or are next to one that has."""
    lower = text[section.start : section.end].lower()
    own, context = _terms_by_chunk(
        lower, terms, weights.common, [chunk.start - section.start for chunk in section.chunks]
    )
    sums = weights.windows_of(context)
    least = weights.match((), sums)
    matches = [weights.match(matched, sums) if matched else least for matched in own]
    last = len(matches) - 1
    result = []
    for index, match in enumerate(matches):
        before = matches[index - 1] if index else 0.0
        after = matches[index + 1] if index < last else 0.0
        smoothed = match + _NEIGHBOR_WEIGHT * (before + after)
        if smoothed > 0:
            result.append((smoothed, section.chunks[index]))
    return result


def _terms_by_chunk(
    lower: str, terms: Collection[str], common: Iterable[str], starts: Sequence[int]
) -> tuple[list[list[str]], list[str]]:
    """Return the terms of each chunk, by the place at which a term begins, and those that only the context has."""
    own: list[list[str]] = [[] for _ in starts]
    context: list[str] = []
    for term in dict.fromkeys((*terms, *common)):
        index = find_term(lower, term)
        if index < 0 and term in terms:
            context.append(term)
        while index >= 0:
            place = bisect_right(starts, index) - 1
            own[place].append(term)
            # The next chunk may have it too.
            index = find_term(lower, term, starts[place + 1]) if place + 1 < len(starts) else -1
    return own, context
