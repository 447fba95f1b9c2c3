"""Update the aggregates of sessions from the spans of a commit.

Each commit updates a session row once. Counts are updated by differences: when a stored span is replaced, the old
version is subtracted first. A replay therefore changes nothing. What is counted is in `table`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from ingest.decoding.records import Span
from ingest.storage.database.pg_arrays import encode_array
from ingest.storage.figures import span_counts
from ingest.storage.figures.table import STORED, Figure, Merge
from ingest.storage.figures.trends import TrendDelta
from ingest.storage.figures.usage import UsageDelta

SESSION_KEY = ("cell", "session_key")
"""The primary key of `ingest_session`."""


class SessionDelta:
    """Change that one commit makes to the aggregates of one session. It has an attribute for each column."""

    __slots__ = ("trend", "usage", *span_counts.COLUMNS)

    # Times are microseconds since 2000.
    first_at: int | None
    last_at: int | None
    running_count: int

    def __init__(self) -> None:
        self.usage: UsageDelta | None = None
        self.trend: TrendDelta | None = None
        span_counts.init(self)

    def add(self, spans: Iterable[Span]) -> None:
        span_counts.add(self, spans)

    def subtract(self, spans: Iterable[Span]) -> None:
        """Remove the stored versions of spans that are replaced from the counts."""
        span_counts.subtract(self, spans)

    def add_hour(self, span: Span, sign: int) -> None:
        if self.trend is None:
            self.trend = TrendDelta()
        self.trend.add(span, sign)

    def extend(self, started_us: int | None, ended_us: int | None) -> None:
        """Extend the session's time range."""
        for at in (started_us, ended_us):
            if at is not None:
                self.first_at = at if self.first_at is None else min(self.first_at, at)
                self.last_at = at if self.last_at is None else max(self.last_at, at)

    def row(self, session_key: uuid.UUID, seq: int) -> tuple[object, ...]:
        """Return the values for `update_parameters`. `seq` is the session's new number."""
        return (session_key, seq, *span_counts.row(self))


def update_parameters(cell: int, sessions: Iterable[tuple[object, ...]]) -> dict[str, object]:
    """Return the parameters of `UPDATE_SESSIONS`: an array for each column, given a row for each session."""
    columns = zip(*sessions, strict=True)
    return {"cell": cell, **{name: encode_array(column) for name, column in zip(_COLUMNS, columns, strict=True)}}


_COLUMNS = {"session_key": "uuid", "last_seq": "bigint", **span_counts.COLUMNS}


def _row(table: str, *columns: str) -> str:
    """Return columns as a row that is compared as Python compares it, so that grouping into commits does not matter."""
    names = (f"{table}.{name}" + (' COLLATE "C"' if _COLUMNS[name] == "text" else "") for name in columns)
    return f"({', '.join(names)})"


_WORST = [figure.column for figure in span_counts.WORST]
_IS_WORSE = f"t.{_WORST[0]} IS NOT NULL AND COALESCE({_row('s', *_WORST)} < {_row('t', *_WORST)}, true)"


def _assignment(figure: Figure) -> str:
    """Return the SQL that merges the change `t` of a figure into the session `s`."""
    name, at = figure.column, figure.time_column
    match figure.merge:
        case Merge.SUM:
            return f"{name} = s.{name} + t.{name}"
        case Merge.MAX | Merge.MIN:
            sums = [f"s.{sum_name} + t.{sum_name}" for sum_name in (figure.at_least,) if sum_name]
            function = "GREATEST" if figure.merge is Merge.MAX else "LEAST"
            return f"{name} = {function}({', '.join([f's.{name}', f't.{name}', *sums])})"
        case Merge.LATEST:
            is_newer = f"t.{at} IS NOT NULL AND COALESCE({_row('s', at, name)} < {_row('t', at, name)}, true)"
            return f"{name} = CASE WHEN {is_newer} THEN t.{name} ELSE s.{name} END, {at} = GREATEST(s.{at}, t.{at})"
        case _:
            return f"{name} = CASE WHEN {_IS_WORSE} THEN t.{name} ELSE s.{name} END"


# One statement for any number of sessions.
# Citus accepts only immutable functions here, so the statement cannot use JSON functions or time arithmetic.
UPDATE_SESSIONS = f"""
UPDATE ingest_session s SET last_seq = GREATEST(s.last_seq, t.last_seq), {", ".join(map(_assignment, STORED))}
FROM unnest({", ".join(f"%({name})s::{kind}[]" for name, kind in _COLUMNS.items())}) t ({", ".join(_COLUMNS)})
WHERE s.cell = %(cell)s AND s.session_key = t.session_key
RETURNING s.session_key, s.model, s.trend_model
"""  # noqa: S608 - constants
_INITIAL = {figure.column: figure.initial for figure in STORED} | dict.fromkeys(span_counts.TIME_COLUMNS)
_SQL_INITIAL = {name: "NULL" if value is None else repr(value) for name, value in _INITIAL.items()}
# Run before a session is aggregated again from its spans.
RESET_SESSION = f"""
UPDATE ingest_session SET {", ".join(f"{name} = {value}" for name, value in _SQL_INITIAL.items())}
WHERE cell = %s AND session_key = %s
"""  # noqa: S608 - constants
_NOT_NULL = {name: value for name, value in _SQL_INITIAL.items() if value != "NULL"}
INSERT_SESSIONS = f"""
INSERT INTO ingest_session (cell, session_key, session_id, day, created_at, last_seq, {", ".join(_NOT_NULL)})
VALUES (%s::bigint, unnest(%s::uuid[]), unnest(%s::text[]), %s, now(), %s, {", ".join(_NOT_NULL.values())})
"""  # noqa: S608 - constants
