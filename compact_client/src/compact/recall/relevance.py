"""Rank the sections that a query found, by a few features. Their weights are data: `weights.json`.

`tests/bench/recall/fit.py` fits the weights and writes them with their data sets and held-out scores. Pure functions.
"""

from __future__ import annotations

import functools
import heapq
import json
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from importlib import resources
from itertools import pairwise
from typing import Any, Final, NamedTuple

from compact.recall.query import Query
from compact.recall.sections import SECTION_CHARS, Section
from compact.recall.terms import Term, contains, fold, words_of

_MAX_READ: Final = 80
_MAX_RANKED: Final = 32
_MAX_NEARBY_TERMS: Final = 16
_PROMPT_SHARE: Final = 0.2
_WHOLE_SHARE: Final = 0.1
# The number of sections before and after one that count as near, and as the same part of the session.
_NEAR, _PART = 4, 20
_PREFIX_CHARS: Final = 5
_NAME: Final = re.compile(r"\W*(\w{2,40}):\s")
_WORD: Final = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Prompt:
    """The messages and words that the model sees. A recall is for what it does not see."""

    ids: Collection[str] = ()
    words: AbstractSet[str] = frozenset()


class Match(NamedTuple):
    """The rows of the sections with a term, in ascending order, and the weight of the term."""

    term: Term
    rows: list[int]
    row_set: frozenset[int]
    weight: float


class Ranked(NamedTuple):
    """A section and its score."""

    score: float
    section: Section


@dataclass(slots=True)
class Candidates:
    """The sections that have terms of a query."""

    read: Callable[[int], Sequence[Section]]
    """Returns the sections of the source that has a row."""
    query: Query
    excluded_count: int
    """The number of sources that may not be shown, which `read` hides."""
    matches: list[Match] = field(default_factory=list)
    rows: set[int] = field(default_factory=set)
    _sections: dict[int, Section] = field(default_factory=dict)

    def add(self, term: Term, rows: list[int], frequency: int, total: int) -> None:
        """Note the sections with a term. `frequency` of `total` sections have it."""
        if len(term.words) > 1 or " " in term.exact:
            rows = [row for row in rows if self._has(row, term)]
            frequency = len(rows)
        weight = math.log((max(total, frequency) - frequency + 0.5) / (frequency + 0.5) + 1)
        self.matches.append(Match(term, rows, frozenset(rows), weight))
        self.rows.update(rows)

    def scores(self) -> dict[int, float]:
        """Return the share of the query that each section has: its best window, and a little of all of it."""
        whole: dict[int, float] = {}
        windows: dict[int, dict[int, float]] = {}
        for term, rows, _, weight in self.matches:
            for sums in (whole, *(windows.setdefault(number, {}) for number in self.query.terms[term])):
                for row in rows:
                    sums[row] = sums.get(row, 0.0) + weight
        best: dict[int, float] = {}
        for sums in windows.values():
            best |= {row: value for row, value in sums.items() if value > best.get(row, 0.0)}
        most = max((self._most(number) for number in windows), default=1.0) or 1.0
        return {row: (value + _WHOLE_SHARE * whole[row]) / most for row, value in best.items()}

    def _most(self, window: int) -> float:
        return sum(match.weight for match in self.matches if window in self.query.terms[match.term])

    def section(self, row: int) -> Section | None:
        if row not in self._sections:
            self._sections |= {section.row: section for section in self.read(row)}
        return self._sections.get(row)

    def _has(self, row: int, term: Term) -> bool:
        section = self.section(row)
        return section is not None and contains(fold(f"{' '.join(section.text.split())} {section.context}"), term.exact)

    def best(self, prompt: Prompt) -> list[tuple[Section, float]]:
        """Return the sections that are worth ranking, each text once. The newest of equal texts stays."""
        by_text: dict[str, tuple[float, float, Section]] = {}
        most = _MAX_READ + 8 * self.excluded_count
        for score, row in heapq.nlargest(most, ((score, row) for row, score in self.scores().items())):
            section = self.section(row)
            if section is None or not self.query.allows(section.source):
                continue
            text = " ".join(section.text.split())
            if text not in by_text:
                share = _PROMPT_SHARE if section.source.id in prompt.ids else 1.0
                by_text[text] = (score * share, score, section)
        best = heapq.nlargest(_MAX_RANKED, by_text.values(), key=lambda item: item[0])
        return [(section, score) for _, score, section in best]


@functools.cache
def weights() -> Mapping[str, Mapping[str, float]]:
    """Return the weights of the features for a question of a person, and for a longer text, such as a step."""
    data: Any = json.loads(resources.files(__package__).joinpath("weights.json").read_text("utf-8"))
    return {kind: profile["weights"] for kind, profile in data["profiles"].items()}


def rank(candidates: Candidates, prompt: Prompt) -> list[Ranked]:
    """Return sections with their scores, best first."""
    factors = weights()[candidates.query.kind]
    ranked = [
        Ranked(sum(factors.get(name, 0.0) * value for name, value in values.items()), section)
        for section, values in features(candidates, prompt)
    ]
    return sorted((item for item in ranked if item.score > 0), key=lambda item: (-item.score, -item.section.row))


def features(candidates: Candidates, prompt: Prompt) -> list[tuple[Section, dict[str, float]]]:
    """Return the candidates with the values of their features, most of them between 0 and 1."""
    best = candidates.best(prompt)
    if not best:
        return []
    view = _View(candidates, [section for section, _ in best])
    return [
        (section, {**view.terms(section), **view.author(section, own, prompt), "own": own}) for section, own in best
    ]


class _View:
    """Reads the features of the candidates of one query."""

    def __init__(self, candidates: Candidates, sections: Sequence[Section]) -> None:
        self._query, self._matches = candidates.query, candidates.matches
        self._total = sum(match.weight for match in self._matches) or 1.0
        self._nearby = heapq.nlargest(_MAX_NEARBY_TERMS, self._matches, key=lambda match: match.weight)
        self._pairs = _pairs([match.term.words[0][0] for match in self._matches if not match.term.exact])
        self._words = {form for term in self._query.terms for forms in term.words for form in forms}
        self._speaker = self._query.speaker()
        self._days = self._query.days(max((section.source.time or "" for section in sections), default=""))

    def terms(self, section: Section) -> dict[str, float]:
        """Return where the terms of the query are: in this section, next to it, and in this part of the session."""
        row = section.row
        others = [match for match in self._nearby if row not in match.row_set]
        return {
            "exact": self._share(m for m in self._matches if m.term.exact and row in m.row_set),
            "before": self._share(match for match in others if row - 1 in match.row_set),
            "after": self._share(match for match in others if row + 1 in match.row_set),
            "near": _density(self._nearby, row, _NEAR) / self._total,
            "part": _density(self._nearby, row, _PART) / self._total,
            "phrase": len(self._pairs & _pairs(_WORD.findall(fold(section.text)))) / max(1, len(self._pairs)),
        }

    def author(self, section: Section, own: float, prompt: Prompt) -> dict[str, float]:
        """Return who said a section, when, and what the prompt has of it. `own` is the value of its terms."""
        source = section.source
        name = _NAME.match(source.text)
        is_speaker = source.role == self._speaker or (name is not None and fold(name[1]) in self._words)
        is_day = self._days is not None and self._days[0] <= (source.time or "")[:10] <= self._days[1]
        return {
            "length": own * len(section.text) / SECTION_CHARS,
            "speaker": float(is_speaker),
            "said": own * (source.role in ("user", "assistant")),
            "asked": own * (source.role == "user"),
            "new": own * _novelty(section.text, prompt.words),
            "in_prompt": own * (source.id in prompt.ids),
            "day": float(is_day),
        }

    def _share(self, matches: Iterable[Match]) -> float:
        return sum(match.weight for match in matches) / self._total


def _density(matches: Sequence[Match], row: int, reach: int) -> float:
    """Return the weight of the terms around a row. A term that is there often counts little more than once."""
    total = 0.0
    for match in matches:
        count = bisect_right(match.rows, row + reach) - bisect_left(match.rows, row - reach)
        total += match.weight * count / (count + 2)
    return total


def _pairs(words: Sequence[str]) -> set[tuple[str, str]]:
    """Return the words that follow each other, by their beginnings, so that `groups` is `group`."""
    prefixes = [word[:_PREFIX_CHARS] for word in words if len(word) > 2]
    return set(pairwise(prefixes))


def _novelty(text: str, known: AbstractSet[str]) -> float:
    words = words_of(text)
    return len(words - known) / (len(words) + 6)
