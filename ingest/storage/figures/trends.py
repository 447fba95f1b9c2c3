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
from typing import Any, NamedTuple

from ingest.decoding.records import Span
from ingest.decoding.timestamps import to_datetime, to_microseconds
from ingest.storage.database.pg_arrays import encode_array
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


_COLUMNS = {"hour": "timestamptz", "model": "text", **dict.fromkeys(COUNTS, "bigint"), "kept_counts": "text"}
_ADD = """
INSERT INTO {table} AS old (cell, {names}, kept_counts)
VALUES (%(cell)s::bigint, {arrays}::int[])
ON CONFLICT ({key}) DO UPDATE SET {sums}, kept_counts = CASE WHEN excluded.kept_counts IS NULL THEN old.kept_counts ELSE
  (SELECT array_agg(coalesce(a, 0) + b ORDER BY n) FROM unnest(old.kept_counts, excluded.kept_counts)
   WITH ORDINALITY x (a, b, n)) END
"""


def _add_statement(table: str, columns: Mapping[str, str], key: Sequence[str]) -> str:
    return _ADD.format(
        table=table,
        names=", ".join(name for name in columns if name != "kept_counts"),
        arrays=", ".join(f"unnest(%({name})s::{kind}[])" for name, kind in columns.items()),
        key=", ".join(key),
        sums=", ".join(f"{name} = old.{name} + excluded.{name}" for name in COUNTS),
    )


_ACTIVITY_COLUMNS = {"session_key": "uuid", **_COLUMNS}
ADD_TREND = _add_statement("ingest_trend", _COLUMNS, TREND_KEY)
ADD_ACTIVITY = _add_statement("ingest_activity", _ACTIVITY_COLUMNS, ACTIVITY_KEY)
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


def trend_parameters(cell: int, rows: Iterable[tuple[str, HourRow]]) -> dict[str, Any]:
    """Return the parameters of `ADD_TREND`, given rows with their model.

    Rows of the same hour and model are added up, because one statement cannot update a row twice. If nothing is left to
    change, return an empty dictionary.
    """
    deltas: dict[str, TrendDelta] = {}
    for model, row in rows:
        deltas.setdefault(model, TrendDelta()).add_row(row)
    values = [_values(model, row) for model, delta in deltas.items() for row in delta.rows()]
    return {"cell": cell, **_arrays(_COLUMNS, values)} if values else {}


def activity_parameters(cell: int, rows: Iterable[tuple[uuid.UUID, str, HourRow]]) -> dict[str, Any]:
    """Return the parameters of `ADD_ACTIVITY`, given rows with their session and the model it counts under."""
    values = [(key, *_values(model, row)) for key, model, row in rows]
    return {"cell": cell, **_arrays(_ACTIVITY_COLUMNS, values)}


def _values(model: str, row: HourRow) -> tuple[object, ...]:
    array = None
    if any(row.shares.values()):
        array = f"{{{','.join(str(row.shares.get(share, 0)) for share in range(SHARES))}}}"
    return (to_datetime(row.hour_us), model, *row.counts, array)


def _arrays(columns: Mapping[str, str], rows: Sequence[tuple[object, ...]]) -> dict[str, str]:
    return {name: encode_array(row[position] for row in rows) for position, name in enumerate(columns)}
