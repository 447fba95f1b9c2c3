"""The search index of a conversation: SQLite's FTS5 finds sections by their words, and features rank them.

The database has one row per section and no positions, which is small and fast to build. A search looks up each term of
the query, ranks the best sections by the features of `relevance`, and cuts passages around them.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from compact.exceptions import CompactError
from compact.recall.excerpts import Room, build_passages
from compact.recall.passage import Passage
from compact.recall.query import Query
from compact.recall.relevance import Candidates, Prompt, rank
from compact.recall.sections import Section, Source, split_source
from compact.recall.terms import Term, documents

CREATE_WORDS: Final = (
    "CREATE VIRTUAL TABLE words USING fts5(text, content='', columnsize=0, detail=none,"
    " tokenize='porter unicode61 remove_diacritics 0')"
)
INSERT_WORDS: Final = "INSERT INTO words(rowid, text) VALUES (?, ?)"
_SELECT: Final = "SELECT rowid FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ? LIMIT ?"
_SELECT_BEST: Final = (
    "SELECT rowid FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rank, rowid DESC LIMIT ?"
)
_HASH_BYTES: Final = 64 * 1024 * 1024
# A query costs at most this many rows. Terms that more sections have say little about where to look.
_MAX_LOOKUPS: Final = 2_500
_MIN_LOOKUPS: Final = 48
_MIN_CANDIDATES: Final = 8
_MAX_CANDIDATES: Final = 64
_MAX_CACHED_SOURCES: Final = 256


class SectionStore:
    """The sections of one session, in memory."""

    def __init__(self) -> None:
        self._sources: list[Source] = []
        self._rows: list[int] = []
        self._cache: dict[int, list[Section]] = {}
        self.end = 0

    def add(self, source: Source) -> list[Section]:
        """Store a source and return its sections."""
        sections = split_source(source, self.end)
        self._rows.append(self.end)
        self._sources.append(source)
        self.end += len(sections)
        return sections

    def ranges(self) -> list[tuple[int, int]]:
        """Return the first and last row of each run of rows that may be searched."""
        return [(0, self.end - 1)]

    def read(self, row: int) -> list[Section]:
        """Return all sections of the source that has a row. The row of the first one says where it begins."""
        if not 0 <= row < self.end:
            return []
        number = bisect_right(self._rows, row) - 1
        if number not in self._cache:
            if len(self._cache) >= _MAX_CACHED_SOURCES:
                self._cache.clear()
            self._cache[number] = split_source(self._sources[number], self._rows[number])
        return self._cache[number]


class PassageIndex:
    """An index of sources. Threads that use it at the same time wait for each other."""

    def __init__(self) -> None:
        self.store = SectionStore()
        # Reentrant, because a search calls the host's token counter, which may search.
        self._lock = threading.RLock()
        self._db = open_memory()
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
            sections = [section for source in sources for section in self.store.add(source)]
            self._db.execute("BEGIN")
            self._db.executemany(INSERT_WORDS, documents(sections))
            self._db.execute("COMMIT")

    def candidates(self, query: str) -> Candidates:
        """Return the sections that have terms of a query, for the program that fits the weights."""
        with self._lock:
            return find_candidates(self._db, self.store, query)

    def search(
        self,
        query: str,
        *,
        limit: int,
        max_tokens: int,
        count_tokens: Callable[[str], int],
        visible: Collection[str] = (),
        known_words: AbstractSet[str] = frozenset(),
        excluded: Collection[str] = (),
    ) -> list[Passage]:
        """Return the best passages, at most `limit` of them with at most `max_tokens` in total.

        `visible` are the ids of sources that the prompt contains, and `known_words` are its words and names.
        `excluded` are the ids of sources that may not be shown.
        """
        with self._lock:
            return search(
                self._db, self.store, query, limit=limit, max_tokens=max_tokens, count_tokens=count_tokens,
                prompt=Prompt(visible, known_words), excluded=excluded,
            )  # fmt: skip


def open_memory() -> sqlite3.Connection:
    """Return an empty index in memory."""
    # The index's lock protects the connection, but another thread may hold it next time.
    connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    try:
        connection.execute(CREATE_WORDS)
    except sqlite3.OperationalError as error:
        connection.close()
        raise CompactError(
            f"Recall needs SQLite with FTS5, which this Python's sqlite3 module lacks: {error}"
        ) from None
    # One large segment: a term is looked up in one place, and nothing is merged.
    connection.execute("INSERT INTO words(words, rank) VALUES ('hashsize', ?)", (_HASH_BYTES,))
    return connection


def search(
    db: sqlite3.Connection,
    store: SectionStore,
    text: str,
    *,
    limit: int,
    max_tokens: int,
    count_tokens: Callable[[str], int],
    prompt: Prompt,
    excluded: Collection[str] = (),
) -> list[Passage]:
    """Return the best passages of the sections in a store."""
    candidates = find_candidates(db, store, text, excluded)
    ranked = rank(candidates, prompt)
    room = Room(limit, max_tokens, count_tokens)
    return build_passages(ranked, candidates.read, room, candidates.query, prompt) if limit > 0 else []


def find_candidates(
    db: sqlite3.Connection, store: SectionStore, text: str, excluded: Collection[str] = ()
) -> Candidates:
    """Return the sections that have terms of a query."""
    query = Query.parse(text)

    def read(row: int) -> list[Section]:
        sections = store.read(row)
        return sections if sections and sections[0].source.id not in excluded else []

    candidates = Candidates(read, query, len(excluded))
    if query.terms:
        _look_up(db, store.ranges(), candidates)
    return candidates


def _look_up(db: sqlite3.Connection, ranges: Sequence[tuple[int, int]], candidates: Candidates) -> None:
    """Find the sections with each term. Of the terms that most sections have, only the best sections are read."""
    terms = candidates.query.terms
    most = max(_MIN_LOOKUPS, _MAX_LOOKUPS // len(terms))
    total = sum(last - first + 1 for first, last in ranges)
    common: list[Term] = []
    for term in terms:
        rows = [row for span in ranges for row in _rows(db, _SELECT, [term], span, most + 1)]
        if len(rows) <= most or term.exact:
            candidates.add(term, rows, len(rows), total)
        else:
            common.append(term)
    if len(candidates.rows) < _MIN_CANDIDATES and common:
        most = _MAX_CANDIDATES + 8 * candidates.excluded_count
        rows = sorted(row for span in ranges for row in _rows(db, _SELECT_BEST, common, span, most))
        for term in common:
            candidates.add(term, rows, total // 2, total)


def _rows(
    db: sqlite3.Connection, statement: str, terms: Sequence[Term], span: tuple[int, int], limit: int
) -> list[int]:
    expression = " OR ".join(f"({term.expression})" for term in terms)
    try:
        return [row for (row,) in db.execute(statement, (expression, *span, limit))]
    except sqlite3.OperationalError:
        # A word of a rare script that the tokenizer splits in another way.
        return []
