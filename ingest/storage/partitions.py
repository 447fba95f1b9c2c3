"""Make and drop the daily partitions of the span table.

Days are those on which sessions were first seen, so a partition holds whole sessions and retention is a drop. Every
function takes a connection of either kind through the same few statements.
"""

from __future__ import annotations

from datetime import date, timedelta

DAYS_AHEAD = 7
# What the planner is told, whatever a sample says: a session has many spans. After a day of small ones it would look
# through the whole of a large one for each of its spans, because that index is as good by the figures.
SESSIONS_TOLD = 200


def name_of(day: date) -> str:
    return f"ingest_span_{day:%Y%m%d}"


def create_statement(day: date) -> str:
    """SQL that makes the partition of `day` if it is not there; safe to run from several processes at once."""
    name, following = name_of(day), day + timedelta(days=1)
    # Attaching takes a weaker lock than creating in place: readers and writers of other days are not held up.
    # Old event rows compress poorly row by row, so pages are kept full.
    return f"""
DO $$ BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('ingest_span partitions'));
  IF to_regclass('{name}') IS NULL THEN
    CREATE TABLE {name} (LIKE ingest_span INCLUDING DEFAULTS INCLUDING STORAGE INCLUDING COMPRESSION);
    ALTER TABLE {name} ALTER session_key SET (n_distinct = {SESSIONS_TOLD});
    ALTER TABLE ingest_span ATTACH PARTITION {name} FOR VALUES FROM ('{day:%Y-%m-%d}') TO ('{following:%Y-%m-%d}');
  END IF;
END $$
"""


def days_from(today: date, *, ahead: int = DAYS_AHEAD) -> list[date]:
    return [today + timedelta(days=offset) for offset in range(ahead + 1)]


# Those of a day. An administrator's own, such as a default partition, are none of our business.
EXISTING = """
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'ingest_span'::regclass AND c.relname ~ '^ingest_span_[0-9]{8}$' ORDER BY c.relname
"""


def day_of(name: str) -> date:
    digits = name.removeprefix("ingest_span_")
    return date(int(digits[:4]), int(digits[4:6]), int(digits[6:8]))
