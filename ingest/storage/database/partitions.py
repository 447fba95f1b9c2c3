"""SQL for the daily partitions of the span table and the search index.

A partition holds the sessions that were first seen on its day, with all their spans, so that retention can drop it as a
whole. The functions return SQL because both psycopg's asynchronous connections and Django's connections run it.
"""

from __future__ import annotations

from datetime import date, timedelta

DAYS_AHEAD = 7
# The planner's estimate of sessions per partition, set so that it expects many spans in each session. From the
# statistics of a day with many small sessions it would choose to scan a large session once for each of its spans.
ESTIMATED_SESSIONS = 200


def partition_name(day: date) -> str:
    return f"ingest_span_{day:%Y%m%d}"


def create_statement(day: date) -> str:
    """Return SQL that creates the partition of `day` if it is missing. Several processes may run it at once."""
    name, next_day = partition_name(day), day + timedelta(days=1)
    # ATTACH takes a weaker lock than CREATE TABLE … PARTITION OF, so queries on other days continue.
    return f"""
DO $$ BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('ingest_span partitions'));
  IF to_regclass('{name}') IS NULL THEN
    CREATE TABLE {name} (LIKE ingest_span INCLUDING DEFAULTS INCLUDING STORAGE INCLUDING COMPRESSION);
    ALTER TABLE {name} ALTER session_key SET (n_distinct = {ESTIMATED_SESSIONS});
    ALTER TABLE ingest_span ATTACH PARTITION {name} FOR VALUES FROM ('{day:%Y-%m-%d}') TO ('{next_day:%Y-%m-%d}');
  END IF;
END $$
"""


def search_partition_name(day: date) -> str:
    return f"ingest_search_{day:%Y%m%d}"


def create_search_statement(day: date) -> str:
    """Return SQL that creates the search partition of `day` if it is missing. Several processes may run it at once."""
    name, next_day = search_partition_name(day), day + timedelta(days=1)
    return f"""
DO $$ BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('ingest_search partitions'));
  IF to_regclass('{name}') IS NULL THEN
    CREATE TABLE {name} (LIKE ingest_search INCLUDING DEFAULTS);
    ALTER TABLE ingest_search ATTACH PARTITION {name} FOR VALUES FROM ('{day:%Y-%m-%d}') TO ('{next_day:%Y-%m-%d}');
  END IF;
END $$
"""


def upcoming_days(today: date, *, ahead: int = DAYS_AHEAD) -> list[date]:
    """Return `today` and the `ahead` days after it."""
    return [today + timedelta(days=offset) for offset in range(ahead + 1)]


# Daily partitions only. Partitions that an administrator added, such as a default partition, are left alone.
LIST_PARTITIONS = """
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'ingest_span'::regclass AND c.relname ~ '^ingest_span_[0-9]{8}$' ORDER BY c.relname
"""


def partition_day(name: str) -> date:
    """Return the day of a partition, given its name."""
    digits = name.removeprefix("ingest_span_")
    return date(int(digits[:4]), int(digits[4:6]), int(digits[6:8]))
