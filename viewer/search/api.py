"""Search over REST."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ingest.decoding.labels import LABEL_KEYS
from ingest.models import Project
from viewer.accounts import access
from viewer.audit import payload_views
from viewer.rest import BadFilter, ReadView, next_url, number_of, query_parameter
from viewer.search.queries import MAX_RESULTS, Page, Result, search
from viewer.sessions import labels
from viewer.templatetags.ariadne import session_url
from viewer.visibility.public_parts import Visibility

DEFAULT_RESULTS = 20
_RESULT = inline_serializer(
    "SearchResult",
    {
        "type": serializers.ChoiceField(["session", "message", "summary", "span"]),
        "session": serializers.CharField(help_text="The id of the session."),
        "session_key": serializers.UUIDField(),
        "project_id": serializers.IntegerField(),
        "span": serializers.CharField(allow_null=True, help_text="trace_id:span_id"),
        "kind": serializers.CharField(allow_null=True),
        "name": serializers.CharField(allow_null=True),
        "at": serializers.DateTimeField(allow_null=True),
        "url": serializers.CharField(help_text="The page that shows it."),
        "snippet": serializers.ListField(
            child=inline_serializer(
                "SnippetPart", {"text": serializers.CharField(), "match": serializers.BooleanField()}
            )
        ),
    },
)


class Search(ReadView):
    """Sessions, messages, summaries and spans that contain all words of a query, newest first."""

    @extend_schema(
        operation_id="search",
        parameters=[
            query_parameter("q", "Words, ids or paths. Each matches as a prefix."),
            query_parameter("project", "The slug of a project. All projects of the reader otherwise."),
            query_parameter("session", "Only this session."),
            *(query_parameter(kind, f"Only sessions with this {kind}.") for kind in LABEL_KEYS),
            query_parameter("limit", f"Page size, at most {MAX_RESULTS}.", OpenApiTypes.INT),
            query_parameter("cursor", "Page cursor, taken from `next`."),
        ],
        responses=inline_serializer(
            "SearchPage",
            {
                "results": serializers.ListField(child=_RESULT),
                "next": serializers.URLField(allow_null=True),
                "searched": serializers.ChoiceField(
                    ["content", "metadata"], help_text="`metadata` if texts were not searched."
                ),
            },
        ),
    )
    def get(self, request: Request) -> Response:
        projects = visible_projects(request, request.query_params.get("project", ""))
        limit = max(1, number_of(request, "limit", DEFAULT_RESULTS, most=MAX_RESULTS))
        session = None
        if name := request.query_params.get("session", ""):
            row = self.get_session(request, name)
            projects, session = {row.project_id: projects[row.project_id]}, row.session_key
        page = search(
            projects,
            request.query_params.get("q", ""),
            limit=limit,
            cursor=request.query_params.get("cursor", ""),
            session=session,
            with_labels=labels.filters_of(request.query_params),
        )
        record_views(request, page)
        has_content = any(visibility is Visibility.CONTENT for visibility in projects.values())
        return Response(
            {
                "results": [result_json(result) for result in page.results],
                "next": next_url(request, "cursor", page.cursor),
                "searched": "content" if has_content else "metadata",
            }
        )


def visible_projects(request: Request, slug: str = "") -> dict[int, Visibility]:
    """Return the projects that a request may search, with what its sender sees of them."""
    grant = access.request_grant(request)
    allowed = grant.projects(Search.right)
    if slug:
        allowed = frozenset(Project.objects.filter(slug=slug, pk__in=allowed).values_list("pk", flat=True))
        if not allowed:
            raise BadFilter("project", "No such project.")
    return {project_id: payload_views.project_visibility(grant, project_id) for project_id in sorted(allowed)}


def record_views(request: Request, page: Page) -> None:
    """Record in the audit log that the reader sees texts of these projects."""
    if page.has_content:
        grant = access.request_grant(request)
        for project_id in sorted({result.session.project_id for result in page.results if result.span is not None}):
            payload_views.record_search_view(request, grant, project_id)


def result_json(result: Result) -> dict[str, Any]:
    span, at = result.span, result.at
    page = session_url(result.session)
    return {
        "type": result.type,
        "session": result.session.session_id,
        "session_key": str(result.session.session_key),
        "project_id": result.session.project_id,
        "span": span.key if span else None,
        "kind": span.kind if span else None,
        "name": span.name if span else None,
        "at": at.isoformat().replace("+00:00", "Z") if at else None,
        "url": f"{page}#span={quote(span.key, safe='')}" if span else page,
        "snippet": [{"text": part.text, "match": part.is_match} for part in result.snippet],
    }
