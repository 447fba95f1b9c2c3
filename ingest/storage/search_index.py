"""Write the full-text search index. `viewer.search` decides which words are in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from uuid import UUID

from django.db.backends.utils import CursorWrapper

from ingest.models import Session
from ingest.storage.database import partitions

SESSION_ITEM = UUID(int=0)
"""The item of a session itself. Its `seq` is the progress of the index in this session."""
_PARTITIONS = """
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'ingest_search'::regclass
"""
# Words contain no spaces, and one string is much faster to send than an array.
# A span that changed replaces its words. A session collects the words of all its traces and spans.
_UPSERT = """
INSERT INTO ingest_search AS old (cell, session_key, session_day, item, seq, trace_id, span_id, message, words)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, array_to_tsvector(string_to_array(%s, ' ')))
ON CONFLICT (cell, session_key, session_day, item) DO UPDATE SET seq = excluded.seq, trace_id = excluded.trace_id,
  span_id = excluded.span_id, message = excluded.message, words = {words}
"""
_REPLACE = _UPSERT.format(words="excluded.words")
# Beyond this number of words, a session with generated names stops collecting them.
_MAX_SESSION_WORDS = 5_000
_COLLECT = _UPSERT.format(
    words=f"CASE WHEN length(old.words) > {_MAX_SESSION_WORDS} THEN old.words ELSE old.words || excluded.words END"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """The words of one item of a session."""

    item: UUID
    seq: int
    trace_id: str | None
    span_id: str | None
    message: bytes | None
    words: Sequence[str]


def create_partitions(cursor: CursorWrapper, days: Iterable[date]) -> None:
    """Create the partitions of these days if they are missing."""
    missing = set(days)
    cursor.execute(_PARTITIONS)
    existing = {name for (name,) in cursor.fetchall()}
    for day in sorted(missing):
        if partitions.search_partition_name(day) not in existing:
            cursor.execute(partitions.create_search_statement(day))


def progress(cursor: CursorWrapper, cell: int, sessions: Sequence[Session]) -> dict[UUID, int]:
    """Return the number up to which each session of a cell is in the index."""
    cursor.execute(
        "SELECT s.session_key, s.seq FROM unnest(%s::uuid[], %s::date[]) k (key, day) JOIN ingest_search s"
        " ON s.session_key = k.key AND s.session_day = k.day AND s.item = %s WHERE s.cell = %s",
        [[s.session_key for s in sessions], [s.day for s in sessions], SESSION_ITEM, cell],
    )
    return dict(cursor.fetchall())


def known_items(cursor: CursorWrapper, session: Session, items: Sequence[UUID]) -> set[UUID]:
    """Return the items of a session that are in the index."""
    cursor.execute(
        "SELECT item FROM ingest_search WHERE cell = %s AND session_key = %s AND session_day = %s AND item = ANY(%s)",
        [session.cell, session.session_key, session.day, list(items)],
    )
    return {item for (item,) in cursor.fetchall()}


def write(cursor: CursorWrapper, session: Session, entries: Sequence[Entry], session_entry: Entry) -> None:
    """Write the entries of a session, replace those that exist, and record its progress."""
    common = (session.cell, session.session_key, session.day)
    cursor.executemany(
        _REPLACE,
        [(*common, e.item, e.seq, e.trace_id, e.span_id, e.message, " ".join(e.words)) for e in entries],
    )
    entry = session_entry
    values = (*common, entry.item, entry.seq, None, None, None, " ".join(entry.words))
    cursor.execute(_COLLECT, values)
