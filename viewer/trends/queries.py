"""Figures over time, and the sessions behind them.

Callers pass the projects that the reader has access to. The number of rows that are read depends on the hours and the
models, not on the number of spans or sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import F, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from ingest.models import Activity, Session, Trend, Usage
from ingest.storage.trends import COUNTS, SHARES
from viewer.costs.amounts import Cost
from viewer.costs.queries import hourly_costs, session_costs
from viewer.trends.periods import Period

MAX_SESSIONS = 100


@dataclass(slots=True)
class Figures:
    """Sums of some hours."""

    compactions: int = 0
    tokens_freed: int = 0
    cache_lost_tokens: int = 0
    facts_total: int = 0
    facts_kept: int = 0
    fallbacks: int = 0
    overflows: int = 0
    errors: int = 0
    cost_usd: Decimal | None = None
    shares: dict[int, int] = field(default_factory=dict)
    """The number of compactions by the share of facts they kept, in percent."""

    def add(self, counts: Sequence[int], kept_counts: Sequence[int] | None) -> None:
        for name, count in zip(COUNTS, counts, strict=True):
            setattr(self, name, getattr(self, name) + count)
        for share, count in enumerate(kept_counts or ()):
            if count:
                self.shares[share] = self.shares.get(share, 0) + count

    def add_cost(self, cost: Cost) -> None:
        if cost.total is not None:
            self.cost_usd = (self.cost_usd or Decimal(0)) + cost.total

    @property
    def facts_lost(self) -> int:
        return self.facts_total - self.facts_kept

    @property
    def facts_kept_p50(self) -> float | None:
        """The share of facts that the median compaction kept, from 0 to 1, exact to a percent."""
        count = sum(self.shares.values())
        seen = 0
        for share in range(SHARES):
            seen += self.shares.get(share, 0)
            if count and seen * 2 >= count:
                return share / 100
        return None

    @property
    def facts_kept_worst(self) -> float | None:
        """The lowest share of facts that a compaction kept."""
        worst = min((share for share, count in self.shares.items() if count > 0), default=None)
        return None if worst is None else worst / 100


@dataclass(slots=True)
class Series:
    """The figures of a period, bucket by bucket, and in total."""

    key: str
    points: list[Figures]
    total: Figures = field(default_factory=Figures)


def series(
    projects: Iterable[int], period: Period, *, model: str | None = None, group: str = "", with_cost: bool = True
) -> list[Series]:
    """Return the figures of projects in a period: one series, or one for each `model` or `project`."""
    projects = list(projects)
    buckets = len(period.starts)
    all_series: dict[str, Series] = {}

    def series_of(key: str) -> Series:
        if key not in all_series:
            all_series[key] = Series(key, [Figures() for _ in range(buckets)])
        return all_series[key]

    key_of = _KEYS.get(group, _no_key)
    if not group:
        series_of("")
    rows = Trend.objects.filter(project_id__in=projects, hour__gte=period.since, hour__lt=period.until)
    if model is not None:
        rows = rows.filter(model=model)
    for project_id, hour, name, *counts, kept_counts in rows.values_list(
        "project_id", "hour", "model", *COUNTS, "kept_counts"
    ):
        target = series_of(key_of(project_id, name))
        target.points[period.index(hour)].add(counts, kept_counts)
        target.total.add(counts, kept_counts)
    # Costs belong to the model of each call, which is not always the model that a session counts under.
    if with_cost and group != "model":
        for project_id in projects:
            target = series_of(key_of(project_id, ""))
            for hour, cost in hourly_costs(project_id, period.since, period.until, model=model).items():
                target.points[period.index(hour)].add_cost(cost)
                target.total.add_cost(cost)
    return sorted(all_series.values(), key=lambda one: (-one.total.compactions, one.key))


def _no_key(_project_id: int, _model: str) -> str:
    return ""


_KEYS: dict[str, Callable[[int, str], str]] = {
    "model": lambda _project_id, model: model,
    "project": lambda project_id, _model: str(project_id),
}


def models(projects: Iterable[int], period: Period) -> list[str]:
    """Return the models with figures in a period."""
    rows = Trend.objects.filter(project_id__in=list(projects), hour__gte=period.since, hour__lt=period.until)
    return sorted(set(rows.order_by().values_list("model", flat=True).distinct()))


@dataclass(frozen=True, slots=True)
class SessionFigures:
    """The figures of one session in a period."""

    session: Session
    figures: Figures
    cost: Cost | None = None


METRICS = {
    "compactions": F("sum_compactions"),
    "tokens_freed": F("sum_tokens_freed"),
    "facts": F("sum_facts_total") - F("sum_facts_kept"),
    "fallbacks": F("sum_fallbacks"),
    "overflows": F("sum_overflows"),
    "errors": F("sum_errors"),
    "cache_lost": F("sum_cache_lost_tokens"),
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
    projects = list(projects)
    rows = Activity.objects.filter(project_id__in=projects, hour__gte=since, hour__lt=until)
    if model is not None:
        rows = rows.filter(model=model)
    sums = {f"sum_{name}": Sum(name) for name in COUNTS}
    limit = min(limit, MAX_SESSIONS)
    if metric == "cost":
        keys = _most_tokens(projects, since, until, model, limit)
        counts = {key: values for key, *values in _by_session(rows.filter(session_key__in=keys), sums)}
        top = [(key, counts.get(key, [0] * len(COUNTS))) for key in keys]
    else:
        ordered = rows.values("session_key").annotate(**sums).annotate(metric=METRICS[metric]).filter(metric__gt=0)
        ordered = ordered.order_by("-metric", "session_key")
        top = [(key, values) for key, *values in ordered.values_list("session_key", *sums)[:limit]]
    # Sessions are deleted by the day they began, which may be before the figures are.
    sessions = Session.objects.in_bulk([key for key, _ in top])
    costs: dict[UUID, Cost] = {}
    if with_cost:
        for project_id in {session.project_id for session in sessions.values()}:
            costs |= session_costs(project_id, [s.session_key for s in sessions.values() if s.project_id == project_id])
    return [SessionFigures(sessions[key], Figures(*counts), costs.get(key)) for key, counts in top if key in sessions]


_WORST_FIRST: dict[str, tuple[str, Q]] = {
    "facts": ("facts_order", Q(facts_order__gt=0)),
    "errors": ("error_count", Q(error_count__gt=0, fallback_count__lt=F("error_count"))),
    "overflows": ("overflow_count", Q(overflow_count__gt=0)),
    "fallbacks": ("fallback_count", Q(fallback_count__gt=0)),
}
"""By metric: the column of a session row that is indexed, and the condition to have any."""


def worst_sessions(projects: Iterable[int], since: datetime, *, metric: str, limit: int) -> list[SessionFigures]:
    """Return the worst sessions of those active since a time, with their figures since then.

    Sessions are chosen by their whole life, from an index, so a long period costs no more than a short one.
    """
    column, has_any = _WORST_FIRST[metric]
    sessions: dict[UUID, Session] = {}
    for project_id in projects:
        rows = Session.objects.filter(project_id=project_id, last_at__gte=since)
        rows = rows.annotate(facts_order=Coalesce("worst_lost", -1)).filter(has_any)
        sessions |= {session.session_key: session for session in rows.order_by(f"-{column}")[:limit]}
    sums = {f"sum_{name}": Sum(name) for name in COUNTS}
    activity = Activity.objects.filter(session_key__in=sessions, hour__gte=since)
    rows_of_period = [SessionFigures(sessions[key], Figures(*counts)) for key, *counts in _by_session(activity, sums)]
    attribute = "facts_lost" if metric == "facts" else metric
    rows_of_period = [row for row in rows_of_period if getattr(row.figures, attribute) > 0]
    rows_of_period.sort(key=lambda row: (-getattr(row.figures, attribute), row.session.session_key))
    return rows_of_period[:limit]


def _by_session(rows: QuerySet[Activity], sums: dict[str, Sum]) -> Iterable[tuple[Any, ...]]:
    return list(rows.values("session_key").annotate(**sums).values_list("session_key", *sums))


def _most_tokens(projects: list[int], since: datetime, until: datetime, model: str | None, limit: int) -> list[UUID]:
    """Return the sessions with most billed tokens between two hours."""
    calls = Usage.objects.filter(project_id__in=projects, hour__gte=since, hour__lt=until, call_count__gt=0)
    if model is not None:
        calls = calls.filter(model=model)
    tokens = Sum(F("input_tokens") + F("output_tokens"))
    ordered = calls.values("session_key").annotate(tokens=tokens).order_by("-tokens", "session_key")
    return list(ordered.values_list("session_key", flat=True)[:limit])
