"""The trends page."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponseBase, QueryDict
from django.utils import timezone

from ingest.storage.figures.table import BY_NAME, Page, figures_on
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.page_frame import current_project
from viewer.page_response import send_page
from viewer.rest import BadFilter
from viewer.trends import charts, periods, queries
from viewer.trends.periods import Period

_SESSION_COLUMNS = [figure for figure in figures_on(Page.TRENDS) if figure.unit != "usd"]
_FACTS = _SESSION_COLUMNS.index(BY_NAME["facts"]) + 1
# Costs belong to the model of each call, which is not always the one that a session counts under.
_MODEL_COLUMNS = [
    *_SESSION_COLUMNS[:_FACTS],
    BY_NAME["facts_kept_p50"],
    BY_NAME["facts_kept_worst"],
    *_SESSION_COLUMNS[_FACTS:],
]


@access.requires(Right.SESSIONS)
def trends(request: HttpRequest) -> HttpResponseBase:
    """Charts of a project, or of all projects of the reader, and the sessions behind the selected point."""
    project = current_project(request)
    assert project is not None
    allowed = access.request_grant(request).projects(Right.SESSIONS)
    covers_all = request.GET.get("scope") == "all" and len(allowed) > 1
    projects = sorted(allowed) if covers_all else [project.pk]
    problem = ""
    try:
        period = periods.parse(request.GET, timezone.now())
    except BadFilter as error:
        problem, period = error.message, periods.last("", timezone.now())
    known = {
        "project": project,
        "period": period,
        "problem": problem,
        "covers_all": covers_all,
        "may_cover_all": len(allowed) > 1,
    }
    return send_page(
        request,
        "trends/trends.html",
        known,
        lambda: _figures(request.GET, projects, period),
        status=400 if problem else 200,
    )


def _figures(parameters: QueryDict, projects: list[int], period: Period) -> dict[str, Any]:
    model = parameters.get("model") or None
    query = {name: value for name in ("range", "since", "until", "scope", "model") if (value := parameters.get(name))}
    by_model = queries.series(projects, period, model=model, group="model")
    whole = queries.whole([*by_model, *queries.cost_series(projects, period, model=model)], period)
    point = _point(parameters, projects, period, model)
    return {
        "ranges": [(name, label) for name, (_, _, label) in periods.RANGES.items()],
        "query": query,
        "model": model or "",
        "models": [name for name in queries.models(projects, period) if name],
        "charts": charts.charts(whole, period, query, point["since"] if point else None),
        "total": whole.total,
        "columns": _MODEL_COLUMNS,
        "session_columns": _SESSION_COLUMNS,
        "has_figures": any(
            (whole.total["compactions"], whole.total["errors"], whole.total["fallbacks"], whole.total.cost_usd)
        ),
        "by_model": by_model,
        "point": point,
    }


def _point(query: Mapping[str, Any], projects: list[int], period: Period, model: str | None) -> dict[str, Any] | None:
    """Return the sessions behind the point that the address names, or None without one."""
    metric = str(query.get("metric", "compactions"))
    try:
        at = datetime.fromisoformat(str(query.get("at", "")))
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=period.since.tzinfo)
    if not period.since <= at < period.until:
        return None
    since, until = at, min(at + period.bucket, period.until)
    if metric not in {*queries.METRICS, "cost"}:
        metric = "compactions"
    sessions = queries.sessions_behind(projects, since, until, model=model, metric=metric, with_cost=True)
    return {"since": since, "until": until, "metric": metric, "sessions": sessions}
