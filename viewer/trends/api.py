"""Trends over REST."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ingest.models import Project
from ingest.storage.figures.table import BY_NAME, HOURLY
from ingest.storage.figures.trends import COUNTS
from viewer.accounts import access
from viewer.rest import BadFilter, ReadView, number_of, query_parameter
from viewer.templatetags.ariadne import session_url
from viewer.trends import periods, queries
from viewer.trends.queries import Figures, Series, SessionFigures

Fields = dict[str, serializers.Field[Any, Any, Any, Any]]
_SUMS: Fields = {
    **{figure.hourly: serializers.IntegerField(help_text=figure.definition) for figure in HOURLY},
    "cost_usd": serializers.FloatField(allow_null=True, help_text=BY_NAME["cost"].definition),
}
_SHARES: Fields = {
    name: serializers.FloatField(allow_null=True, help_text=f"{BY_NAME[name].definition} From 0 to 1.")
    for name in ("facts_kept_p50", "facts_kept_worst")
}
_TOTAL = inline_serializer("Total", {**_SUMS, **_SHARES})
_POINTS = inline_serializer("Point", {**_SUMS, **_SHARES, "at": serializers.DateTimeField()}, many=True)
_SERIES = inline_serializer(
    "Series",
    {
        "key": serializers.CharField(help_text="The model, or the slug of the project."),
        "points": _POINTS,
        "total": _TOTAL,
    },
    many=True,
    help_text="Empty without `group`.",
)
_SESSIONS = inline_serializer(
    "TrendSession",
    {
        **_SUMS,
        "cost_usd": serializers.FloatField(allow_null=True, help_text="Cost of the whole session."),
        "id": serializers.CharField(),
        "key": serializers.UUIDField(),
        "url": serializers.CharField(),
    },
    many=True,
)


_PARAMETERS = [
    query_parameter("project", "The slug of a project. All projects of the reader otherwise."),
    query_parameter("model", "Exact model name."),
    query_parameter(
        "range", f"One of {', '.join(periods.RANGES)}, ending now. The default is {periods.DEFAULT_RANGE}."
    ),
    query_parameter("since", "Start of the range, instead of `range`.", OpenApiTypes.DATETIME),
    query_parameter("until", "End of the range.", OpenApiTypes.DATETIME),
]


class Trends(ReadView):
    """Compactions, tokens, facts, fallbacks, overflows, errors and cost over time."""

    @extend_schema(
        operation_id="trends",
        parameters=[
            *_PARAMETERS,
            query_parameter("bucket", "`hour`, `day` or a number of hours for each point."),
            query_parameter("group", "`model` or `project` for a series each."),
        ],
        responses=inline_serializer(
            "TrendPage",
            {
                "since": serializers.DateTimeField(),
                "until": serializers.DateTimeField(),
                "bucket_hours": serializers.IntegerField(),
                "models": serializers.ListField(child=serializers.CharField()),
                "points": _POINTS,
                "total": _TOTAL,
                "series": _SERIES,
            },
        ),
    )
    def get(self, request: Request) -> Response:
        projects = requested_projects(request)
        period = periods.parse(request.query_params, timezone.now())
        group = request.query_params.get("group", "")
        if group not in {"", "model", "project"}:
            raise BadFilter("group", "Use `model` or `project`.")
        model = request.query_params.get("model")
        parts = queries.series(projects, period, model=model, group=group)
        costs = queries.cost_series(projects, period, model=model)
        whole = queries.whole([*parts, *costs], period)
        if group == "project":
            parts = queries.with_costs(parts, costs, period)
        starts = period.starts
        return Response(
            {
                "since": period.since,
                "until": period.until,
                "bucket_hours": period.bucket_hours,
                "models": queries.models(projects, period),
                **_series_json(whole, starts),
                "series": [
                    {"key": projects[int(one.key)] if group == "project" else one.key, **_series_json(one, starts)}
                    for one in (parts if group else ())
                ],
            }
        )


class TrendSessions(ReadView):
    """The sessions behind a point of a chart, the largest contribution first."""

    @extend_schema(
        operation_id="trend_sessions",
        parameters=[
            *_PARAMETERS,
            query_parameter("metric", f"One of {', '.join(queries.METRICS)} or cost."),
            query_parameter("limit", f"At most {queries.MAX_SESSIONS}.", OpenApiTypes.INT),
        ],
        responses=inline_serializer("TrendSessionPage", {"results": _SESSIONS}),
    )
    def get(self, request: Request) -> Response:
        projects = requested_projects(request)
        period = periods.parse(request.query_params, timezone.now())
        metric = request.query_params.get("metric", "compactions")
        if metric not in {*queries.METRICS, "cost"}:
            raise BadFilter("metric", f"Use one of {', '.join(queries.METRICS)} or cost.")
        rows = queries.sessions_behind(
            projects,
            period.since,
            period.until,
            model=request.query_params.get("model"),
            metric=metric,
            limit=max(1, number_of(request, "limit", 50, most=queries.MAX_SESSIONS)),
            with_cost=True,
        )
        return Response({"results": [_session_json(row) for row in rows]})


def _session_json(row: SessionFigures) -> dict[str, Any]:
    total = row.cost.total if row.cost else None
    return {
        "id": row.session.session_id,
        "key": str(row.session.session_key),
        "url": session_url(row.session),
        **{name: row.figures[name] for name in COUNTS},
        "cost_usd": float(total) if total is not None else None,
    }


def requested_projects(request: Request) -> dict[int, str]:
    """Return the slugs of the projects that a request names, or of all that its sender may see, by id."""
    allowed = access.request_grant(request).projects(Trends.right)
    projects = dict(Project.objects.filter(pk__in=allowed).order_by("pk").values_list("pk", "slug"))
    if slug := request.query_params.get("project", ""):
        projects = {pk: name for pk, name in projects.items() if name == slug}
        if not projects:
            raise BadFilter("project", "No such project.")
    return projects


def _series_json(series: Series, starts: list[datetime]) -> dict[str, Any]:
    points = [{"at": at, **figures_json(point)} for at, point in zip(starts, series.points, strict=True)]
    return {"points": points, "total": figures_json(series.total)}


def figures_json(figures: Figures) -> dict[str, Any]:
    return {
        **{name: figures[name] for name in COUNTS},
        "facts_kept_p50": figures.facts_kept_p50,
        "facts_kept_worst": figures.facts_kept_worst,
        "cost_usd": None if figures.cost_usd is None else float(figures.cost_usd),
    }
