"""Figures over time, and the sessions behind them.

Callers pass the projects that the reader has access to. The number of rows that are read depends on the hours and the
models, not on the number of spans or sessions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import accumulate
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import F, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from ingest.cells import cells_of, project_of
from ingest.models import Activity, Session, Trend, Usage
from ingest.storage.figures.table import BY_NAME, TROUBLES, Figure, Page, figures_on
from ingest.storage.figures.trends import COUNTS
from viewer.costs.amounts import Cost
from viewer.costs.queries import costs_over_time, session_costs
from viewer.sessions.queries import sessions_of
from viewer.trends.periods import Period

MAX_SESSIONS = 100


_POSITIONS = {name: position for position, name in enumerate(COUNTS)}


@dataclass(slots=True)
class Figures:
    """Sums of some hours. `figures["errors"]` is the sum of that column of the hourly tables."""

    counts: Sequence[int] = (0,) * len(COUNTS)
    cost_usd: Decimal | None = field(default=None, kw_only=True)
    shares: Sequence[int] = field(default=(), kw_only=True)
    """The number of compactions by the share of facts they kept, from 0 to 100 percent."""

    def __getitem__(self, name: str) -> int:
        return self.counts[_POSITIONS[name]]

    @classmethod
    def add_up(cls, parts: Sequence[Figures]) -> Figures:
        costs = [part.cost_usd for part in parts if part.cost_usd is not None]
        return cls(
            [*map(sum, zip(*(part.counts for part in parts), strict=True))] or cls().counts,
            cost_usd=sum(costs, Decimal(0)) if costs else None,
            shares=[*map(sum, zip(*(part.shares for part in parts if part.shares), strict=True))],
        )

    def value(self, figure: Figure) -> float:
        """Return the height of a bar. That of facts shows the lost ones."""
        if figure.name == "facts":
            return self.facts_lost
        return float(self.cost_usd or 0) if figure.name == "cost" else self[figure.hourly]

    @property
    def facts_lost(self) -> int:
        return self["facts_total"] - self["facts_kept"]

    @property
    def facts_kept_p50(self) -> float | None:
        """The share of facts that the median compaction kept, from 0 to 1, exact to a percent."""
        half = sum(self.shares) / 2
        return next((share / 100 for share, seen in enumerate(accumulate(self.shares)) if half and seen >= half), None)

    @property
    def facts_kept_worst(self) -> float | None:
        """The lowest share of facts that a compaction kept."""
        return next((share / 100 for share, count in enumerate(self.shares) if count > 0), None)


@dataclass(frozen=True, slots=True)
class Series:
    """The figures of a period, bucket by bucket, and in total."""

    key: str
    points: list[Figures]
    total: Figures


def series(projects: Iterable[int], period: Period, *, model: str | None = None, group: str = "") -> list[Series]:
    """Return the figures of projects in a period without costs, as one series or one for each `model` or `project`.

    Series without figures are left out.
    """
    key_of = _KEYS.get(group, _no_key)
    hours: dict[str, list[list[Figures]]] = defaultdict(lambda: [[] for _ in period.starts])
    rows = Trend.objects.filter(cell__in=cells_of(*projects), hour__gte=period.since, hour__lt=period.until)
    if model is not None:
        rows = rows.filter(model=model)
    for cell, hour, name, *counts, shares in rows.values_list("cell", "hour", "model", *COUNTS, "kept_counts"):
        hours[key_of(project_of(cell), name)][period.index(hour)].append(Figures(counts, shares=shares or ()))
    return _sort([_series(key, buckets) for key, buckets in hours.items()])


def cost_series(projects: Iterable[int], period: Period, *, model: str | None = None) -> list[Series]:
    """Return the costs of each project in a period.

    They belong to the model of each call, which is not always the model that a session counts under.
    """
    all_series = []
    for project_id in projects:
        costs = costs_over_time(project_id, period.since, period.until, period.index, model=model)
        totals = [costs[number].total if number in costs else None for number in range(len(period.starts))]
        all_series.append(_series(str(project_id), [[Figures(cost_usd=total)] for total in totals]))
    return all_series


def whole(parts: Sequence[Series], period: Period, key: str = "") -> Series:
    """Add up series bucket by bucket."""
    return _series(key, [[part.points[number] for part in parts] for number in range(len(period.starts))])


def with_costs(parts: Sequence[Series], costs: Iterable[Series], period: Period) -> list[Series]:
    """Return a series for each project, with its figures and its costs."""
    return _sort([whole([one for one in (*parts, cost) if one.key == cost.key], period, cost.key) for cost in costs])


def _sort(all_series: list[Series]) -> list[Series]:
    return sorted(all_series, key=lambda one: (-one.total["compactions"], one.key))


def _series(key: str, buckets: Iterable[Sequence[Figures]]) -> Series:
    points = [Figures.add_up(bucket) for bucket in buckets]
    return Series(key, points, Figures.add_up(points))


def _no_key(_project_id: int, _model: str) -> str:
    return ""


_KEYS: dict[str, Callable[[int, str], str]] = {
    "model": lambda _project_id, model: model,
    "project": lambda project_id, _model: str(project_id),
}


def models(projects: Iterable[int], period: Period) -> list[str]:
    """Return the models with figures in a period."""
    rows = Trend.objects.filter(cell__in=cells_of(*projects), hour__gte=period.since, hour__lt=period.until)
    return sorted(set(rows.order_by().values_list("model", flat=True).distinct()))


@dataclass(frozen=True, slots=True)
class SessionFigures:
    """The figures of one session in a period."""

    session: Session
    figures: Figures
    cost: Cost | None = None

    def value(self, metric: str) -> float:
        return self.figures.value(BY_NAME[metric])


METRICS = {
    **{figure.name: F(f"sum_{figure.hourly}") for figure in figures_on(Page.TRENDS) if figure.hourly},
    "facts": F("sum_facts_total") - F("sum_facts_kept"),
}
"""Orders of the sessions behind a point, most first. `cost` is another one."""


def sessions_behind(
    projects: Iterable[int],
    since: datetime,
    until: datetime,
    *,
    model: str | None = None,
    metric: str = "compactions",
    limit: int = 50,
    with_cost: bool = False,
) -> list[SessionFigures]:
    """Return the sessions that contribute most to a metric between two hours. Sessions without any are left out."""
    cells = cells_of(*projects)
    rows = Activity.objects.filter(cell__in=cells, hour__gte=since, hour__lt=until)
    if model is not None:
        rows = rows.filter(model=model)
    sums = {f"sum_{name}": Sum(name) for name in COUNTS}
    limit = min(limit, MAX_SESSIONS)
    if metric == "cost":
        top = _top_of(_most_tokens(cells, since, until, model, limit), rows, sums)
    else:
        ordered = rows.values("session_key").annotate(**sums).annotate(metric=METRICS[metric]).filter(metric__gt=0)
        ordered = ordered.order_by("-metric", "session_key")
        top = [(key, values) for key, *values in ordered.values_list("session_key", *sums)[:limit]]
    # Sessions are deleted by the day they began, which may be before the figures are.
    sessions = sessions_of(cells, [key for key, _ in top])
    costs = _costs_of(sessions.values()) if with_cost else {}
    return [SessionFigures(sessions[key], Figures(counts), costs.get(key)) for key, counts in top if key in sessions]


def _top_of(keys: Sequence[UUID], rows: QuerySet[Activity], sums: dict[str, Sum]) -> list[tuple[UUID, list[int]]]:
    """Return sessions in their order, with the sums of their hours."""
    counts = {key: values for key, *values in _by_session(rows.filter(session_key__in=keys), sums)}
    return [(key, counts.get(key, [0] * len(COUNTS))) for key in keys]


def _costs_of(sessions: Iterable[Session]) -> dict[UUID, Cost]:
    """Return the costs of sessions of any projects."""
    keys: dict[int, list[UUID]] = {}
    for session in sessions:
        keys.setdefault(session.project_id, []).append(session.session_key)
    costs: dict[UUID, Cost] = {}
    for project_id, session_keys in keys.items():
        costs |= session_costs(project_id, session_keys)
    return costs


_WORST_FIRST: dict[str, tuple[str, Q]] = {
    "facts": ("facts_order", Q(facts_order__gt=0)),
    **{figure.name: (figure.column, Q(**{f"{figure.column}__gt": 0})) for figure in TROUBLES},
}
"""By metric: the column of a session row that is indexed, and the condition to have any."""
_SUM_OF = {"facts": "facts_total - facts_kept", **{figure.name: figure.hourly for figure in TROUBLES}}
_MOST_OF_EACH = f"""
WITH sums AS (
  SELECT session_key, {", ".join(f"sum({name})::bigint AS {name}" for name in COUNTS)}
  FROM ingest_activity WHERE cell = ANY(%(cells)s) AND hour >= %(since)s AND hour < %(until)s
  GROUP BY session_key)
SELECT session_key, {", ".join(COUNTS)} FROM (
  SELECT *, least({
    ", ".join(f"row_number() OVER (ORDER BY {value} DESC, session_key)" for value in _SUM_OF.values())
}) AS rank FROM sums) ranked
WHERE rank <= %(limit)s
"""  # noqa: S608 - constants


def worst_sessions(
    projects: Iterable[int], since: datetime, until: datetime, *, limit: int
) -> dict[str, list[SessionFigures]]:
    """Return the sessions with most lost facts and most of each trouble between two hours, by metric."""
    cells = cells_of(*projects)
    values: dict[str, Any] = {"cells": cells, "since": since, "until": until, "limit": limit}
    with connection.cursor() as cursor:
        cursor.execute(_MOST_OF_EACH, values)
        counts = {key: Figures(figures) for key, *figures in cursor.fetchall()}
    sessions = sessions_of(cells, counts)
    return _worst_of_each([SessionFigures(session, counts[key]) for key, session in sessions.items()], limit)


def worst_sessions_by_index(projects: Iterable[int], since: datetime, *, limit: int) -> dict[str, list[SessionFigures]]:
    """Return the worst sessions by metric of those active since a time, with their figures since then.

    Sessions are chosen by their whole life, from an index, so a long period costs no more than a short one.
    """
    sessions: dict[UUID, Session] = {}
    for cell in cells_of(*projects):
        active = Session.objects.filter(cell=cell, last_at__gte=since)
        active = active.annotate(facts_order=Coalesce("worst_lost", -1))
        for column, has_any in _WORST_FIRST.values():
            sessions |= {row.session_key: row for row in active.filter(has_any).order_by(f"-{column}")[:limit]}
    sums = {f"sum_{name}": Sum(name) for name in COUNTS}
    activity = Activity.objects.filter(
        cell__in={session.cell for session in sessions.values()}, session_key__in=sessions, hour__gte=since
    )
    rows = [SessionFigures(sessions[key], Figures(counts)) for key, *counts in _by_session(activity, sums)]
    return _worst_of_each(rows, limit)


def _worst_of_each(rows: list[SessionFigures], limit: int) -> dict[str, list[SessionFigures]]:
    result = {}
    for metric in _WORST_FIRST:
        having = [row for row in rows if row.value(metric) > 0]
        result[metric] = sorted(having, key=lambda row: (-row.value(metric), row.session.session_key))[:limit]
    return result


def _by_session(rows: QuerySet[Activity], sums: dict[str, Sum]) -> Iterable[tuple[Any, ...]]:
    return list(rows.values("session_key").annotate(**sums).values_list("session_key", *sums))


def _most_tokens(cells: list[int], since: datetime, until: datetime, model: str | None, limit: int) -> list[UUID]:
    """Return the sessions with most billed tokens between two hours."""
    calls = Usage.objects.filter(cell__in=cells, hour__gte=since, hour__lt=until, call_count__gt=0)
    if model is not None:
        calls = calls.filter(model=model)
    tokens = Sum(F("input_tokens") + F("output_tokens"))
    ordered = calls.values("session_key").annotate(tokens=tokens).order_by("-tokens", "session_key")
    return list(ordered.values_list("session_key", flat=True)[:limit])
