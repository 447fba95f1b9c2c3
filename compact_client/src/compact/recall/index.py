"""The full-text index of one conversation.

SQLite's FTS5 indexes sections of about 700 characters as they are, which costs little. A search looks up the rare
terms of the query, reads the few sections with the most of them, and ranks their lines. An SQLite without FTS5 reads
every section, which is slower but finds the same.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from compact.recall.chunks import CHUNK_CHARS, SECTION_CHARS, split_text
from compact.recall.passage import Passage
from compact.recall.scores import Chunk, QueryWeights, Section, rank_sections, rarity
from compact.recall.selection import Selection
from compact.recall.spread import spread
from compact.recall.terms import (
    compose,
    find_term,
    hidden_parts,
    names_in,
    parts_of,
    query_characters,
    query_words,
    terms_of,
)

_CREATE: Final = (
    "CREATE VIRTUAL TABLE sections USING fts5(text, content='', columnsize=0, tokenize='unicode61 remove_diacritics 0')"
)
_SELECT: Final = "SELECT rowid FROM sections WHERE sections MATCH ? LIMIT ?"
_SELECT_BEST: Final = "SELECT rowid FROM sections WHERE sections MATCH ? ORDER BY rank, rowid DESC LIMIT ?"
_HASH_BYTES: Final = 64 * 1024 * 1024
_MAX_QUERY_WORDS: Final = 120
_MAX_QUERY_CHARACTERS: Final = 16
_MAX_WORD_LOOKUPS: Final = 36
_MAX_NAME_LOOKUPS: Final = 20
# A term in more sections than this says little about where to look. Its frequency only counts for the ranking.
_MAX_RARE_SECTIONS: Final = 32
_MAX_CANDIDATES: Final = 40
_MAX_SECTIONS: Final = 32
# The lines of these sections are ranked. The names of all of them may be listed.
_MAX_RANKED_SECTIONS: Final = 12
_MIN_SECTIONS: Final = 12
_MAX_COMMON_TERMS: Final = 4
_MIN_COMMON_WEIGHT: Final = 2.0
_MAX_CONTEXT_SECTIONS: Final = 6
_IN_PROMPT_WEIGHT: Final = 0.2
_MAX_CACHED_SECTIONS: Final = 2_048
# Frequencies of common terms are estimated again when the index has grown by this factor.
_MAX_GROWTH: Final = 1.25


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
    """The numbers of its sections. Two sources with the same text share a section."""


class Hit(NamedTuple):
    """A section that matches a query, and the terms that it has in its text or in its context."""

    row: int
    terms: list[str]
    match: float
    """The weight of these terms."""


class PassageIndex:
    """An index of sources. Threads that use it at the same time wait for each other."""

    def __init__(self) -> None:
        self.sources: list[Source] = []
        self._sections: list[Section] = []
        self._rows_by_hash: dict[int, list[int]] = {}
        self._common: dict[str, int] = {}
        self._common_count = 0
        self._cached: list[Section] = []
        # Reentrant, because a search calls the host's token counter, which may search.
        self._lock = threading.RLock()
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
        with self._lock:
            documents = [document for source in sources for document in self._split(source)]
            if self._db is not None and documents:
                self._db.execute("BEGIN")
                self._db.executemany("INSERT INTO sections(rowid, text) VALUES (?, ?)", documents)
                self._db.execute("COMMIT")

    def _split(self, source: Source) -> Iterator[tuple[int, str]]:
        """Note a source and its sections. Yield the number and the document of each new section."""
        sections, number = self._sections, len(self.sources)
        self.sources.append(source)
        for place, (start, end) in enumerate(split_text(source.text, SECTION_CHARS)):
            text = source.text[start:end]
            section = Section(number, place, start, end)
            rows = self._rows_by_hash.setdefault(hash(text), [])
            row = next((row for row in rows if self._has_text(row, text)), None)
            if row is not None:
                # The same lines again, such as a file that was read twice. The newest source has them.
                sections[row] = section
            else:
                row = len(sections)
                rows.append(row)
                sections.append(section)
                yield row, _document(source, place, text)
            source.rows.append(row)

    def search(
        self,
        query: str,
        *,
        limit: int,
        max_tokens: int,
        count_tokens: Callable[[str], int],
        visible: Collection[int] = (),
        known_words: Set[str] = frozenset(),
        excluded: Collection[int] = (),
    ) -> list[Passage]:
        """Return the best passages, at most `limit` of them with at most `max_tokens` in total.

        `visible` are the numbers of sources that the prompt contains, and `known_words` are its words and names.
        `excluded` are the numbers of sources that may not be shown.
        """
        words = query_words(query, _MAX_QUERY_WORDS) or query_characters(query, _MAX_QUERY_CHARACTERS)
        if not words or limit < 1:
            return []
        with self._lock:
            self._forget_old_sections()
            weights, hits, common = self._look_up(words, visible, excluded)
            sections = [(self._read(hit.row), hit.terms) for hit in hits[:_MAX_RANKED_SECTIONS]]
            ranked = rank_sections(sections, common, self.sources, weights, visible, known_words)
            selection = Selection(self.sources, ranked, known_words, count_tokens)
            selection.choose(limit, max_tokens)
            selection.add_names(self._names(hits, visible))
            selection.choose_more()
            return selection.passages(visible)

    # Sections.

    def _look_up(
        self, words: list[tuple[str, ...]], visible: Collection[int], excluded: Collection[int]
    ) -> tuple[QueryWeights, list[Hit], list[str]]:
        """Return the weights of the query's terms, the best sections, and the common terms."""
        total = len(self._sections)
        if total > self._common_count * _MAX_GROWTH:
            self._common, self._common_count = {}, total
        frequencies, rows_by_term = self._find_terms(words)
        weights = {term: rarity(frequency, total) for term, frequency in frequencies.items()}
        common = sorted(weights.keys() - rows_by_term.keys(), key=lambda term: (-weights[term], term))
        del common[_MAX_COMMON_TERMS:]
        scores = _sum_weights(rows_by_term, weights)
        if len(scores) < _MIN_SECTIONS:
            others = [row for row in self._match(common, excluded) if row not in scores]
            rows_by_term |= dict.fromkeys(common, others)
            scores |= dict.fromkeys(others, sum(weights[term] for term in common))
        candidates = self._best_rows(scores, visible, excluded, _MAX_CANDIDATES)
        terms_by_row = _terms_by_row(rows_by_term, candidates)
        query = QueryWeights(words, weights)
        matches = {row: query.match(terms) for row, terms in terms_by_row.items()}
        best = self._best_rows(matches, visible, excluded, _MAX_SECTIONS)
        hits = [Hit(row, terms_by_row[row], matches[row]) for row in best]
        return query, hits, [term for term in common if weights[term] >= _MIN_COMMON_WEIGHT]

    def _best_rows(
        self, scores: Mapping[int, float], visible: Collection[int], excluded: Collection[int], count: int
    ) -> list[int]:
        """Return the sections with the highest scores, the newer one of two that are equal."""
        sections = self._sections
        ranked = [
            (score * _IN_PROMPT_WEIGHT if sections[row].source in visible else score, row)
            for row, score in scores.items()
            if sections[row].source not in excluded
        ]
        ranked.sort(reverse=True)
        return [row for _, row in ranked[:count]]

    def _find_terms(self, words: list[tuple[str, ...]]) -> tuple[dict[str, int], dict[str, list[int]]]:
        """Return the number of sections with each term, and the sections of the rare ones."""
        terms = dict.fromkeys(term for word in words for term in word)
        frequencies: dict[str, int] = {}
        rows_by_term: dict[str, list[int]] = {}
        for term in _longest([term for term in terms if term.isalnum()], _MAX_WORD_LOOKUPS):
            frequencies[term] = self._find(term, rows_by_term)
        names = _longest([term for term in terms if not term.isalnum()], _MAX_NAME_LOOKUPS)
        self._find_names(sorted(names, key=len), frequencies, rows_by_term)
        return frequencies, rows_by_term

    def _find_names(
        self, names: Iterable[str], frequencies: dict[str, int], rows_by_term: dict[str, list[int]]
    ) -> None:
        """Note the number of sections with each name, shortest first, and the sections of the rare ones."""
        texts: dict[int, str] = {}
        rare: list[str] = []
        for name in names:
            # A path or identifier can only be where its parts are, such as its rarest word or its file name.
            parts = [part for part in parts_of(name) if part in rows_by_term]
            parts += [other for other in rare if find_term(name, other) >= 0]
            if parts:
                rows = min((rows_by_term[part] for part in parts), key=len)
                rows_by_term[name] = [row for row in rows if self._contains(row, name, texts)]
                frequencies[name] = len(rows_by_term[name])
            else:
                frequencies[name] = self._find(name, rows_by_term)
            if name in rows_by_term:
                rare.append(name)

    def _contains(self, row: int, term: str, texts: dict[int, str]) -> bool:
        """Return True if a section or its context has a term. `texts` are the sections that were read before."""
        text = texts.get(row)
        if text is None:
            section = self._sections[row]
            source = self.sources[section.source]
            text = f"{source.text[section.start : section.end]}\n{source.context}\n{source.id}".lower()
            texts[row] = text
        return find_term(text, term) >= 0

    def _find(self, term: str, rows_by_term: dict[str, list[int]]) -> int:
        """Return the number of sections with a term, and note the sections themselves if they are few."""
        if len(term) == 1:
            rows_by_term[term] = self._rows_with(term)
            return len(rows_by_term[term])
        if self._db is None:
            rows_by_term[term] = [row for row in range(len(self._sections)) if term in self._terms(row)]
            return len(rows_by_term[term])
        frequency = self._common.get(term)
        if frequency is not None:
            return frequency
        matches = self._db.execute(_SELECT, (_phrase(term), _MAX_RARE_SECTIONS + 1)).fetchall()
        if len(matches) <= _MAX_RARE_SECTIONS:
            rows_by_term[term] = [row for (row,) in matches]
            return len(matches)
        # The rows come in their order, so the place of the last one tells how dense they are.
        last: int = matches[-1][0]
        self._common[term] = len(matches) * len(self._sections) // (last + 1)
        return self._common[term]

    def _rows_with(self, character: str) -> list[int]:
        """Return the sections with a character, which the database only has as a part of longer terms."""
        rows = enumerate(self._sections)
        return [row for row, part in rows if self.sources[part.source].text.find(character, part.start, part.end) >= 0]

    def _match(self, terms: list[str], excluded: Collection[int]) -> list[int]:
        """Return the best sections by BM25, for a query that has only common terms."""
        if self._db is None or not terms:
            return []
        expression = " OR ".join(map(_phrase, terms))
        limit = _MAX_SECTIONS + sum(len(self.sources[number].rows) for number in excluded)
        return [row for (row,) in self._db.execute(_SELECT_BEST, (expression, limit))]

    def _has_text(self, row: int, text: str) -> bool:
        section = self._sections[row]
        is_as_long = section.end - section.start == len(text)
        return is_as_long and self.sources[section.source].text.startswith(text, section.start)

    def _terms(self, row: int) -> set[str]:
        section = self._sections[row]
        source = self.sources[section.source]
        return terms_of(f"{source.text[section.start : section.end]} {source.id} {source.context}")

    def _read(self, row: int) -> Section:
        """Return a section with its chunks, which later searches use again."""
        section = self._sections[row]
        if not section.chunks:
            text = self.sources[section.source].text
            section.chunks = [
                Chunk(section.source, start, end)
                for start, end in split_text(text, CHUNK_CHARS, section.start, section.end)
            ]
            self._cached.append(section)
        return section

    def _forget_old_sections(self) -> None:
        """Bound the memory of sections that were read."""
        if len(self._cached) > _MAX_CACHED_SECTIONS:
            for section in self._cached:
                section.chunks, section.names = (), None
            self._cached = []

    def _names(self, hits: Iterable[Hit], visible: Collection[int]) -> Iterator[tuple[int, Mapping[str, str]]]:
        """Yield the source and the names of each section around the lines that a search has found, best first.

        The prompt has the names of visible sources.
        """
        sections = ((hit.match, self._sections[hit.row]) for hit in hits)
        matches = ((match, part.source, part.place) for match, part in sections if part.source not in visible)
        for number, place in spread(matches, lambda number: len(self.sources[number].rows)):
            section = self._sections[self.sources[number].rows[place]]
            if section.names is None:
                section.names = names_in(self.sources[section.source].text[section.start : section.end])
                self._cached.append(section)
            yield number, section.names


def _sum_weights(rows_by_term: Mapping[str, Iterable[int]], weights: Mapping[str, float]) -> dict[int, float]:
    """Return the weight of the terms of each section."""
    sums: dict[int, float] = {}
    for term, rows in rows_by_term.items():
        weight = weights[term]
        for row in rows:
            sums[row] = sums.get(row, 0.0) + weight
    return sums


def _terms_by_row(rows_by_term: Mapping[str, Iterable[int]], rows: Iterable[int]) -> dict[int, list[str]]:
    """Return the terms of these sections, in the order of the sections."""
    terms_by_row: dict[int, list[str]] = {row: [] for row in rows}
    for term, matches in rows_by_term.items():
        for row in matches:
            if row in terms_by_row:
                terms_by_row[row].append(term)
    return terms_by_row


def _longest(terms: Sequence[str], count: int) -> Sequence[str]:
    """Return the longest terms in their order. They are the rarer ones."""
    if len(terms) <= count:
        return terms
    longest = set(sorted(terms, key=len, reverse=True)[:count])
    return [term for term in terms if term in longest]


def _phrase(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'


def _document(source: Source, place: int, text: str) -> str:
    """Return what the database indexes of a section."""
    context = f"{source.id} {source.context}" if place < _MAX_CONTEXT_SECTIONS else ""
    return _storable(f"{text}\n{hidden_parts(text)}\n{context}")


def _storable(text: str) -> str:
    """Return a text that SQLite accepts, in the form of a query's terms.

    Half of a surrogate pair is not valid in UTF-8, and SQLite has another small letter for `İ`.
    """
    return text if text.isascii() else compose(text).replace("İ", "İ".lower()).encode("utf-8", "replace").decode()


def _open_database() -> sqlite3.Connection | None:
    # The index's lock protects the connection, but another thread may hold it next time.
    connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    try:
        connection.execute(_CREATE)
        # One large segment: a term is looked up in one place, and nothing is merged.
        connection.execute("INSERT INTO sections(sections, rank) VALUES ('hashsize', ?)", (_HASH_BYTES,))
    except sqlite3.OperationalError:
        connection.close()
        return None
    return connection
