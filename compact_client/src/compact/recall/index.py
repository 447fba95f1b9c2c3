"""The full-text index of one conversation.

SQLite's FTS5 finds the candidates by BM25. They are then ranked by how rare the matched terms are, how close together
they are in the query, and how much they say that the prompt does not. An SQLite without FTS5 ranks every chunk that
has a term of the query, which is slower but finds the same.
"""

from __future__ import annotations

import math
import os
import sqlite3
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from compact.recall.chunks import chunk_spans
from compact.recall.passage import Passage
from compact.recall.terms import query_words, terms_of

_CREATE: Final = (
    "CREATE VIRTUAL TABLE chunks USING fts5(terms, content='', "
    "tokenize=\"unicode61 remove_diacritics 0 tokenchars '_-./:@#\\'\")"
)
_MAX_QUERY_WORDS: Final = 120
_MAX_RARE_TERMS: Final = 28
_MAX_CANDIDATES: Final = 100
# Rare terms are looked up until they have this many chunks in total. More common ones only cost time.
_MAX_POSTINGS: Final = 300
_MIN_LOOKUPS: Final = 4
# Terms of a query that stand together are a better sign than the same terms spread over all of it.
_WINDOW: Final = 16
_FULL_QUERY_WEIGHT: Final = 0.1
_NEIGHBOR_WEIGHT: Final = 0.2
_CONTEXT_WEIGHT: Final = 0.1
_IN_PROMPT_WEIGHT: Final = 0.2
_NOVELTY_WEIGHT: Final = 12.0
_RECENCY_WEIGHT: Final = 0.05
_MIN_SHARE: Final = 0.02
_TYPICAL_TERMS: Final = 60
_MIN_NOVEL_CHARS: Final = 4
_OMISSION: Final = "…"
_OMISSION_TOKENS: Final = 2
_MIN_CHUNK_TOKENS: Final = 16


@dataclass(slots=True)
class Source:
    """A message or artifact in the index."""

    id: str
    role: str
    text: str
    turn: int = 0
    time: str | None = None
    context: str = ""
    """Text that tells what the message is about, such as the arguments of the call that it answers."""
    rows: list[int] = field(default_factory=list)
    """The numbers of its chunks. Two sources with the same text share a chunk."""
    context_terms: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Chunk:
    source: int
    start: int
    end: int
    terms: tuple[str, ...]
    names: tuple[str, ...]
    """The longer terms, which can say something new."""


class PassageIndex:
    """An index of sources. Not thread-safe."""

    def __init__(self) -> None:
        self.sources: list[Source] = []
        self._chunks: list[_Chunk] = []
        self._frequencies: Counter[str] = Counter()
        self._rows_by_text: dict[int, int] = {}
        self._db = _open_database()
        if self._db is not None:
            # From Python 3.13 on, a connection that is collected while it is open causes a warning.
            weakref.finalize(self, self._db.close)
        self._process_id = os.getpid()

    @property
    def is_usable(self) -> bool:
        """False in a forked process, which must not use the SQLite connection of its parent."""
        return self._process_id == os.getpid()

    def add(self, sources: Iterable[Source]) -> None:
        """Index more sources, the newest one last."""
        documents: list[tuple[int, str]] = []
        for source in sources:
            number = len(self.sources)
            self.sources.append(source)
            source.context_terms = frozenset(terms_of(source.context)) | {source.id.lower()}
            for start, end in chunk_spans(source.text):
                self._add_chunk(number, source, start, end, documents)
        if self._db is not None and documents:
            self._db.executemany("INSERT INTO chunks(rowid, terms) VALUES (?, ?)", documents)

    def _add_chunk(self, number: int, source: Source, start: int, end: int, documents: list[tuple[int, str]]) -> None:
        text = source.text[start:end]
        key = hash(" ".join(text.split()))
        row = self._rows_by_text.get(key)
        if row is not None:
            # The same lines again, such as a file that was read twice. The newest source has them.
            source.rows.append(row)
            known = self._chunks[row]
            self._chunks[row] = _Chunk(number, start, end, known.terms, known.names)
            return
        row = self._rows_by_text[key] = len(self._chunks)
        terms = tuple(dict.fromkeys(terms_of(text)))
        source.rows.append(row)
        names = tuple(term for term in terms if len(term) >= _MIN_NOVEL_CHARS)
        self._chunks.append(_Chunk(number, start, end, terms, names))
        self._frequencies.update(terms)
        documents.append((row, " ".join((*terms, *source.context_terms.difference(terms)))))

    def terms_in(self, source: Source) -> Iterable[str]:
        """Return the terms of a source."""
        for row in source.rows:
            yield from self._chunks[row].terms

    def search(
        self,
        query: str,
        *,
        limit: int,
        max_tokens: int,
        count_tokens: Callable[[str], int],
        visible: Collection[int] = (),
        known_terms: set[str] | frozenset[str] = frozenset(),
        excluded: Collection[int] = (),
    ) -> list[Passage]:
        """Return the best passages, at most `limit` of them with at most `max_tokens` in total.

        `visible` are the numbers of sources that the prompt contains, and `known_terms` are the terms of the prompt.
        `excluded` are the numbers of sources that may not be shown.
        """
        scores = self._scores(query, visible, known_terms)
        if excluded:
            scores = {row: score for row, score in scores.items() if self._chunks[row].source not in excluded}
        if not scores or limit < 1:
            return []
        passages = self._select(scores, limit, max_tokens, count_tokens)
        return [self._passage(rows, scores, visible) for rows in passages]

    # Scores.

    def _scores(self, query: str, visible: Collection[int], known_terms: set[str] | frozenset[str]) -> dict[int, float]:
        """Return the score of each candidate chunk."""
        weights = _Weights(query_words(query)[:_MAX_QUERY_WORDS], self._rarity)
        if not weights.windows:
            return {}
        scores: dict[int, float] = {}
        for row in self._candidates(self._lookup_terms(weights)):
            chunk = self._chunks[row]
            scores[row] = weights.score(chunk.terms, self.sources[chunk.source].context_terms)
        shared: defaultdict[int, float] = defaultdict(float)
        for row, score in scores.items():
            for neighbor in (row - 1, row + 1):
                if 0 <= neighbor < len(self._chunks) and self._chunks[neighbor].source == self._chunks[row].source:
                    shared[neighbor] += _NEIGHBOR_WEIGHT * score
        for row, score in shared.items():
            scores[row] = scores.get(row, 0.0) + score
        return {row: score * self._value(row, visible, known_terms) for row, score in scores.items() if score > 0}

    def _lookup_terms(self, weights: _Weights) -> list[str]:
        """Return the rarest terms of a query, as many as can be looked up quickly."""
        terms: list[str] = []
        left = _MAX_POSTINGS
        for term in weights.rarest():
            if left < 0 and len(terms) >= _MIN_LOOKUPS:
                break
            terms.append(term)
            left -= self._frequencies.get(term, 0)
        return terms

    def _rarity(self, term: str) -> float:
        """Return the weight of a term, 0 if no source has it in its own text."""
        frequency = self._frequencies.get(term, 0)
        if not frequency:
            return 0.01
        total = len(self._chunks)
        return math.log((total - frequency + 0.5) / (frequency + 0.5) + 1) ** 2

    def _value(self, row: int, visible: Collection[int], known_terms: set[str] | frozenset[str]) -> float:
        """Return the factor for what a chunk adds to the prompt. The model asks for what it cannot see."""
        chunk = self._chunks[row]
        novel = len(chunk.names) - len(known_terms.intersection(chunk.names))
        value = 1 + _NOVELTY_WEIGHT * novel / (3 + len(chunk.terms))
        value *= 1 + _RECENCY_WEIGHT * chunk.source / len(self.sources)
        return value * _IN_PROMPT_WEIGHT if chunk.source in visible else value

    def _candidates(self, terms: Sequence[str]) -> Iterable[int]:
        if self._db is None:
            wanted = set(terms)
            return [
                row
                for row, chunk in enumerate(self._chunks)
                if not wanted.isdisjoint(chunk.terms) or not wanted.isdisjoint(self.sources[chunk.source].context_terms)
            ]
        expression = " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)
        rows = self._db.execute(
            "SELECT rowid FROM chunks WHERE chunks MATCH ? ORDER BY rank LIMIT ?", (expression, _MAX_CANDIDATES)
        )
        return [row for (row,) in rows]

    # Passages.

    def _select(
        self, scores: dict[int, float], limit: int, max_tokens: int, count_tokens: Callable[[str], int]
    ) -> list[list[int]]:
        """Return the chunks of each passage. A passage is one message, and the best message is first."""
        passages: dict[int, list[int]] = {}
        least = _MIN_SHARE * max(scores.values())
        for row in sorted(scores, key=scores.__getitem__, reverse=True):
            if scores[row] < least or max_tokens < _MIN_CHUNK_TOKENS:
                break
            chunk = self._chunks[row]
            if chunk.source not in passages and len(passages) >= limit:
                continue
            tokens = count_tokens(self.sources[chunk.source].text[chunk.start : chunk.end]) + _OMISSION_TOKENS
            if tokens <= max_tokens:
                passages.setdefault(chunk.source, []).append(row)
                max_tokens -= tokens
        return list(passages.values())

    def _passage(self, rows: Sequence[int], scores: dict[int, float], visible: Collection[int]) -> Passage:
        chunks = sorted((self._chunks[row] for row in rows), key=lambda chunk: chunk.start)
        source = self.sources[chunks[0].source]
        text, end = "", None
        for chunk in chunks:
            if end is not None and chunk.start > end and source.text[end : chunk.start].strip():
                text = f"{text.rstrip()}\n{_OMISSION}\n"
            text += source.text[chunk.start : chunk.end]
            end = chunk.end
        return Passage(
            message_id=source.id,
            role=source.role,
            turn=source.turn,
            time=source.time,
            text=text.strip("\n"),
            score=round(max(scores[row] for row in rows), 3),
            is_in_prompt=chunks[0].source in visible,
        )


class _Weights:
    """The weight of each term of a query, and the windows of the query that contain it."""

    def __init__(self, words: Sequence[Sequence[str]], rarity: Callable[[str], float]) -> None:
        self._weights: dict[str, float] = {}
        self.windows: dict[str, set[int]] = defaultdict(set)
        for index, terms in enumerate(words):
            half = index // (_WINDOW // 2)
            for term in terms:
                if term not in self._weights:
                    self._weights[term] = rarity(term)
                self.windows[term].update((half, half - 1) if half else (half,))
        self._terms = frozenset(self._weights)

    def rarest(self) -> list[str]:
        """Return the terms to look for."""
        return sorted(self._weights, key=self._weights.__getitem__, reverse=True)[:_MAX_RARE_TERMS]

    def score(self, terms: Sequence[str], context: frozenset[str]) -> float:
        """Return the weight of the terms that a chunk or its context has."""
        total = 0.0
        windows: defaultdict[int, float] = defaultdict(float)
        own = self._terms.intersection(terms)
        for term in (*own, *((context & self._terms) - own)):
            weight = self._weights[term]
            if term not in own:
                weight *= _CONTEXT_WEIGHT
            total += weight
            for window in self.windows[term]:
                windows[window] += weight
        return (max(windows.values(), default=0.0) + _FULL_QUERY_WEIGHT * total) / (1 + len(terms) / _TYPICAL_TERMS)


def _open_database() -> sqlite3.Connection | None:
    # The session's lock protects the connection, but another thread may hold it next time.
    connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    try:
        connection.execute(_CREATE)
    except sqlite3.OperationalError:
        connection.close()
        return None
    return connection
