"""Billed tokens by hour and model: per session (`ingest_usage`), and per cell (`ingest_hourlyusage`).

Changes are differences, as in `aggregates`: when a stored span is replaced, its old usage is subtracted. A replay
therefore changes nothing. A row of `ingest_hourlyusage` is always the sum of its sessions' rows. All writes to a
cell hold its lock, so rows cannot be updated in different orders.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import add
from typing import Any

from ingest.decoding.timestamps import to_datetime
from ingest.decoding.token_usage import Usage, prompt_size
from ingest.storage.database.pg_arrays import encode_array

_HOUR_US = 3_600_000_000
Row = tuple[object, ...]


class UsageDelta:
    """Change that one commit makes to the usage of one session."""

    __slots__ = ("_sums",)

    def __init__(self) -> None:
        self._sums: dict[tuple[int, str, str, bool, int], list[int]] = {}

    def add(self, usage: Usage, at_us: int | None, sign: int) -> None:
        hour_us = 0 if at_us is None else at_us - at_us % _HOUR_US
        key = (hour_us, usage.model, usage.provider, usage.is_summary, prompt_size(usage.input))
        sums = self._sums.get(key)
        if sums is None:
            sums = self._sums[key] = [0, 0, 0, 0, 0, 0]
        sums[0] += sign
        sums[1] += sign * usage.input
        sums[2] += sign * usage.cached
        sums[3] += sign * usage.cache_write
        sums[4] += sign * usage.output
        sums[5] += sign * usage.reasoning

    def rows(self, session_key: uuid.UUID) -> Iterable[Row]:
        """Yield the changed rows, in the order of `_COLUMNS`."""
        for (hour_us, *rest), sums in self._sums.items():
            if any(sums):
                hour: datetime | None = to_datetime(hour_us)
                yield (session_key, hour, *rest, *sums)


_COLUMNS = {
    "session_key": "uuid",
    "hour": "timestamptz",
    "model": "text",
    "provider": "text",
    "is_summary": "bool",
    "prompt_size": "int",
    "call_count": "int",
    "input_tokens": "bigint",
    "cached_tokens": "bigint",
    "cache_write_tokens": "bigint",
    "output_tokens": "bigint",
    "reasoning_tokens": "bigint",
}
_KEY = ("hour", "model", "provider", "is_summary", "prompt_size")
USAGE_KEY = ("cell", "session_key", *_KEY)
HOURLY_KEY = ("cell", *_KEY)
_SUMS = [name for name in _COLUMNS if name not in USAGE_KEY]
_HOURLY_COLUMNS = {name: kind for name, kind in _COLUMNS.items() if name != "session_key"}
_ADD = """
INSERT INTO {table} AS u (cell, {names})
VALUES (%(cell)s::bigint, {arrays})
ON CONFLICT ({key}) DO UPDATE SET {sums}
"""


def _add_statement(table: str, columns: Mapping[str, str], key: Iterable[str]) -> str:
    return _ADD.format(
        table=table,
        key=", ".join(key),
        names=", ".join(columns),
        arrays=", ".join(f"unnest(%({name})s::{kind}[])" for name, kind in columns.items()),
        sums=", ".join(f"{name} = u.{name} + EXCLUDED.{name}" for name in _SUMS),
    )


ADD = _add_statement("ingest_usage", _COLUMNS, USAGE_KEY)
ADD_HOURLY = _add_statement("ingest_hourlyusage", _HOURLY_COLUMNS, HOURLY_KEY)
DELETE = f"DELETE FROM ingest_usage WHERE cell = %s AND session_key = %s RETURNING {', '.join(_COLUMNS)}"  # noqa: S608 - constants
# Run under the lock of the cell.
DELETE_HOURLY = "DELETE FROM ingest_hourlyusage WHERE cell = %(cell)s"
SUM_HOURLY = """
INSERT INTO ingest_hourlyusage (cell, {key}, {names})
SELECT cell, {key}, {totals} FROM ingest_usage WHERE cell = %(cell)s GROUP BY cell, {key}
""".format(key=", ".join(_KEY), names=", ".join(_SUMS), totals=", ".join(f"sum({name})" for name in _SUMS))


def negate(row: Row) -> Row:
    """Return a row that subtracts a stored one."""
    key = len(_COLUMNS) - len(_SUMS)
    return (*row[:key], *(-count for count in row[key:] if isinstance(count, int)))


def add_parameters(cell: int, rows: Iterable[Row]) -> dict[str, Any]:
    """Return the parameters of `ADD`: an array for each column, given a row for each change."""
    return {"cell": cell, **_arrays(_COLUMNS, rows)}


def hourly_parameters(cell: int, rows: Iterable[Row]) -> dict[str, Any]:
    """Return the parameters of `ADD_HOURLY`, given the rows of sessions.

    Rows of the same hour and model are added up, because one statement cannot update a row twice.
    """
    first_sum = 1 + len(_KEY)
    sums: dict[Row, list[Any]] = {}
    for row in rows:
        key, counts = row[1:first_sum], row[first_sum:]
        known = sums.get(key)
        sums[key] = [*counts] if known is None else [*map(add, known, counts)]
    return {"cell": cell, **_arrays(_HOURLY_COLUMNS, ((*key, *counts) for key, counts in sums.items()))}


def _arrays(names: Iterable[str], rows: Iterable[Row]) -> dict[str, str]:
    columns = zip(*rows, strict=True)
    return {name: encode_array(column) for name, column in zip(names, columns, strict=True)}
