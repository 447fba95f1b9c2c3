"""Hourly figures for trends: per session (`ingest_activity`), and per cell and model (`ingest_trend`).

Both tables change in the transaction of the spans, by the difference between old and new rows, so replays add nothing.
A row of `ingest_trend` is always the sum of the rows of `ingest_activity` with its cell, hour and model. All writes
to a cell hold its lock, so rows cannot be updated in different orders.

A session counts under one model: the first one known when its figures were first counted. If none was known then, its
figures move to the model as soon as there is one.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from ingest.decoding.records import Span
from ingest.decoding.timestamps import to_datetime, to_microseconds
from ingest.storage.database.pg_arrays import encode_array
from ingest.storage.database.pipeline import Query
from ingest.storage.figures.span_counts import add_hour
from ingest.storage.figures.table import HOURLY

_HOUR_US = 3_600_000_000
COUNTS = tuple(figure.hourly for figure in HOURLY)
"""Columns of both tables that are sums, in the order of the table of figures."""
ACTIVITY_KEY = ("cell", "session_key", "hour")
TREND_KEY = ("cell", "hour", "model")
SHARES = 101
"""Length of `kept_counts`: the number of compactions that kept 0 to 100 % of their facts."""


class HourRow(NamedTuple):
    """Figures of one hour, or the change of them."""

    hour_us: int
    counts: Sequence[int]
    shares: Mapping[int, int]
    """The number of compactions by the share of facts they kept, in percent."""

    def negate(self) -> HourRow:
        return HourRow(
            self.hour_us, [-count for count in self.counts], {share: -count for share, count in self.shares.items()}
        )


class TrendDelta:
    """Change of the hourly figures of one session, or of one cell and model."""

    __slots__ = ("_hours",)

    def __init__(self) -> None:
        self._hours: dict[int, tuple[list[int], dict[int, int]]] = {}

    def add(self, span: Span, sign: int) -> None:
        at_us = span.at_us
        counts, shares = self._hour(0 if at_us is None else at_us - at_us % _HOUR_US)
        add_hour(counts, span, sign)
        event = span.stats.event
        if event.facts_total:
            share = share_kept(event.facts_total, event.facts_kept)
            shares[share] = shares.get(share, 0) + sign

    def add_row(self, row: HourRow) -> None:
        counts, shares = self._hour(row.hour_us)
        for position, count in enumerate(row.counts):
            counts[position] += count
        for share, count in row.shares.items():
            shares[share] = shares.get(share, 0) + count

    def rows(self) -> list[HourRow]:
        """Return the hours that change."""
        return [
            HourRow(hour_us, counts, shares)
            for hour_us, (counts, shares) in self._hours.items()
            if any(counts) or any(shares.values())
        ]

    def _hour(self, hour_us: int) -> tuple[list[int], dict[int, int]]:
        hour = self._hours.get(hour_us)
        if hour is None:
            hour = self._hours[hour_us] = ([0] * len(COUNTS), {})
        return hour


def stored_row(hour: datetime, counts: Sequence[int], kept_counts: Sequence[int] | None) -> HourRow:
    """Return the figures of a row that was read from the database."""
    shares = {share: count for share, count in enumerate(kept_counts or ()) if count}
    return HourRow(to_microseconds(hour), counts, shares)


def share_kept(total: int, kept: int) -> int:
    """Return the facts kept in percent. 0 means none, and 100 means all of them."""
    if kept in {0, total}:
        return 100 if kept else 0
    return min(99, max(1, round(100 * kept / total)))


_COLUMNS = {"hour": "timestamptz", "model": "text", **dict.fromkeys(COUNTS, "bigint")}
_ADD = """
INSERT INTO {table} AS old (cell, {names})
VALUES (%(cell)s::bigint, {arrays})
ON CONFLICT ({key}) DO UPDATE SET {sums}
"""
# A statement of its own for the few rows with a distribution, because Citus rejects a subquery in an INSERT.
_ADD_SHARES = """
UPDATE {table} old SET kept_counts = (
  SELECT array_agg(coalesce(a, 0) + b ORDER BY n) FROM unnest(old.kept_counts, new.kept_counts::int[])
  WITH ORDINALITY x (a, b, n))
FROM unnest({arrays}, %(kept_counts)s::text[]) new ({names}, kept_counts)
WHERE old.cell = %(cell)s AND ({old_key}) = ({new_key})
"""


class _Table:
    """The statements that add rows to a table of hourly figures."""

    def __init__(self, name: str, key: Sequence[str], columns: Mapping[str, str]) -> None:
        self._columns = columns
        self._key = {column: columns[column] for column in key if column != "cell"}
        self._add = _ADD.format(
            table=name,
            names=", ".join(columns),
            arrays=", ".join(f"unnest(%({column})s::{kind}[])" for column, kind in columns.items()),
            key=", ".join(key),
            sums=", ".join(f"{column} = old.{column} + excluded.{column}" for column in COUNTS),
        )
        self._add_shares = _ADD_SHARES.format(
            table=name,
            names=", ".join(self._key),
            arrays=", ".join(f"%({column})s::{kind}[]" for column, kind in self._key.items()),
            old_key=", ".join(f"old.{column}" for column in self._key),
            new_key=", ".join(f"new.{column}" for column in self._key),
        )

    def add(self, cell: int, rows: Sequence[tuple[tuple[object, ...], HourRow]]) -> list[Query]:
        """Return the queries that add rows, each given with the columns before its counts."""
        if not rows:
            return []
        values = [(*first, *row.counts) for first, row in rows]
        queries: list[Query] = [(self._add, {"cell": cell, **_arrays(self._columns, values)})]
        if shares := [(*first, _distribution(row)) for first, row in rows if any(row.shares.values())]:
            names = [*list(self._columns)[: len(rows[0][0])], "kept_counts"]
            arrays = _arrays(names, shares)
            queries.append(
                (self._add_shares, {"cell": cell, **{name: arrays[name] for name in (*self._key, names[-1])}})
            )
        return queries


_TREND = _Table("ingest_trend", TREND_KEY, _COLUMNS)
_ACTIVITY = _Table("ingest_activity", ACTIVITY_KEY, {"session_key": "uuid", **_COLUMNS})
READ_ACTIVITY = f"""
SELECT session_key, hour, model, {", ".join(COUNTS)}, kept_counts FROM ingest_activity
WHERE cell = %s AND session_key = ANY(%s)
"""  # noqa: S608 - constants
DELETE_ACTIVITY = "DELETE FROM ingest_activity WHERE cell = %s AND session_key = ANY(%s)"
# Run under the lock of the cell.
DELETE_TREND = "DELETE FROM ingest_trend WHERE cell = %(cell)s"
SUM_TREND = f"""
INSERT INTO ingest_trend (cell, hour, model, {", ".join(COUNTS)}, kept_counts)
SELECT %(cell)s::bigint, hour, model, {", ".join(COUNTS)}, kept_counts FROM (
  SELECT hour, model, {", ".join(f"sum({name}) AS {name}" for name in COUNTS)} FROM ingest_activity
  WHERE cell = %(cell)s GROUP BY hour, model) counts
LEFT JOIN (
  SELECT hour, model, array_agg(seen ORDER BY share) AS kept_counts FROM (
    SELECT hour, model, share, sum(seen)::int AS seen
    FROM ingest_activity, unnest(kept_counts) WITH ORDINALITY shares (seen, share)
    WHERE cell = %(cell)s GROUP BY hour, model, share) sums
  GROUP BY hour, model) distributions USING (hour, model)
"""  # noqa: S608 - constants
SET_ACTIVITY_MODEL = """
UPDATE ingest_activity a SET model = t.model FROM unnest(%(keys)s::uuid[], %(models)s::text[]) t (key, model)
WHERE a.cell = %(cell)s AND a.session_key = t.key
"""
SET_SESSION_MODEL = """
UPDATE ingest_session s SET trend_model = t.model FROM unnest(%(keys)s::uuid[], %(models)s::text[]) t (key, model)
WHERE s.cell = %(cell)s AND s.session_key = t.key
"""


def add_trends(cell: int, rows: Iterable[tuple[str, HourRow]]) -> list[Query]:
    """Return the queries that add rows to the trends of a cell, given with their model. There may be nothing to add.

    Rows of the same hour and model are added up, because one statement cannot update a row twice.
    """
    deltas: dict[str, TrendDelta] = {}
    for model, row in rows:
        deltas.setdefault(model, TrendDelta()).add_row(row)
    changes = [(model, row) for model, delta in deltas.items() for row in delta.rows()]
    return _TREND.add(cell, [((to_datetime(row.hour_us), model), row) for model, row in changes])


def add_activity(cell: int, rows: Iterable[tuple[uuid.UUID, str, HourRow]]) -> list[Query]:
    """Return the queries that add rows, given with their session and the model that it counts under."""
    return _ACTIVITY.add(cell, [((key, to_datetime(row.hour_us), model), row) for key, model, row in rows])


def _distribution(row: HourRow) -> str:
    return f"{{{','.join(str(row.shares.get(share, 0)) for share in range(SHARES))}}}"


def _arrays(names: Iterable[str], rows: Sequence[tuple[object, ...]]) -> dict[str, str]:
    return {name: encode_array(row[position] for row in rows) for position, name in enumerate(names)}
