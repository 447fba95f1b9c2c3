"""Sessions and spans over REST."""

from __future__ import annotations

import json
from uuid import UUID

from django.http import Http404, HttpResponse, HttpResponseNotModified
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from ingest.decoding.labels import LABEL_KEYS
from ingest.models import Session
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.audit import payload_views
from viewer.rest import ReadView, next_url, number_of, query_parameter
from viewer.sessions import labels, queries, session_list
from viewer.sessions.descriptions import describe_session
from viewer.sessions.serializers import (
    CheckSerializer,
    LabeledSession,
    SessionSerializer,
    SpanSchema,
    TreeSchema,
    check_json,
    span_json,
)
from viewer.sessions.session_checks import projected_turns
from viewer.visibility.public_parts import Visibility, hidden_fields

MAX_PAGE = 1_000
DEFAULT_SPANS = 200


class SessionList(ReadView):
    """Sessions, most recently active first."""

    @extend_schema(
        operation_id="sessions",
        parameters=[
            query_parameter("q", "Text in the session id or the model."),
            query_parameter("model", "Exact model name."),
            query_parameter("state", f"One of {', '.join(session_list.STATE_LABELS)}."),
            query_parameter("range", f"Active in the last {', '.join(session_list.RANGES)}."),
            query_parameter("sort", f"{', '.join(session_list.SORTS)}. `-` in front means descending."),
            *(
                query_parameter(kind, f"Exact value of a label: {', '.join(keys)}.")
                for kind, keys in LABEL_KEYS.items()
            ),
            query_parameter("limit", f"Page size, at most {MAX_PAGE}.", OpenApiTypes.INT),
            query_parameter("before", "Page cursor, taken from `next`."),
        ],
        responses=inline_serializer(
            "SessionPage",
            {"results": LabeledSession(many=True), "next": serializers.URLField(allow_null=True)},
        ),
    )
    def get(self, request: Request) -> Response:
        filters = session_list.SessionFilter.from_query(request.query_params, request.user.pk)
        if request.query_params.get("before") and filters.before is None:
            raise ValidationError({"before": "Invalid cursor. Use the value from `next`."})
        limit = max(1, number_of(request, "limit", session_list.PAGE_SIZE, most=MAX_PAGE))
        grant = access.request_grant(request)
        projects = {project: payload_views.project_visibility(grant, project) for project in grant.projects(self.right)}
        page, cursor = session_list.sessions_page(projects, filters, limit=limit)
        session_labels: dict[UUID, list[labels.LabelValue]] = {}
        for project, visibility in projects.items():
            own = [session for session in page if session.project_id == project]
            session_labels |= labels.session_labels(own, visibility) if own else {}
        results = [
            {
                **SessionSerializer(session).data,
                "labels": labels.labels_json(session_labels.get(session.session_key, ())),
            }
            for session in page
        ]
        return Response({"results": results, "next": next_url(request, "before", cursor)})


class SessionDetail(ReadView):
    """One session with its traces."""

    @extend_schema(operation_id="session", responses=LabeledSession)
    def get(self, request: Request, session: str) -> Response:
        row = self.get_session(request, session)
        visibility = payload_views.sight(request, row).visibility
        session_labels = labels.session_labels([row], visibility).get(row.session_key, ())
        own = {"labels": labels.labels_json(session_labels), "traces": queries.traces(row, visibility)}
        return Response({**SessionSerializer(row).data, **own})


class SpanList(ReadView):
    """The spans of a session in the order of their last change."""

    @extend_schema(
        operation_id="session_spans",
        parameters=[
            query_parameter("after", "Page cursor, taken from `next`.", OpenApiTypes.INT64),
            query_parameter("limit", f"Page size, at most {MAX_PAGE}.", OpenApiTypes.INT),
            query_parameter("kind", "Exact span kind."),
            query_parameter("status", "ok or error."),
        ],
        responses=inline_serializer(
            "SpanPage",
            {"results": serializers.ListField(child=SpanSchema), "next": serializers.URLField(allow_null=True)},
        ),
    )
    def get(self, request: Request, session: str) -> Response:
        limit = max(1, number_of(request, "limit", DEFAULT_SPANS, most=MAX_PAGE))
        owner = self.get_session(request, session)
        sight = payload_views.sight(request, owner)
        rows = queries.spans_page(
            owner,
            sight.visibility,
            after=number_of(request, "after", 0),
            limit=limit + 1,
            kind=request.query_params.get("kind", ""),
            status=request.query_params.get("status", ""),
        )
        cursor = rows[limit - 1].seq if len(rows) > limit else None
        if sight.has_content and any(row != row.as_seen(Visibility.METADATA) for row in rows[:limit]):
            payload_views.record_view(request, owner, part="spans")
        results = [span_json(row) for row in rows[:limit]]
        return Response({"results": results, "next": next_url(request, "after", cursor)})


class SpanTree(ReadView):
    """All spans of a session in one response, as columns.

    Each column is a list with one value per span. Times are Unix milliseconds. `trace` is null if all spans belong to
    the only trace in `traces`.
    """

    #: Part of the ETag, so that a page never reads a cached response of an older server.
    FORMAT = 3

    @extend_schema(
        operation_id="session_tree",
        parameters=[query_parameter("after", "Only changes after this seq.", OpenApiTypes.INT64)],
        responses=TreeSchema,
    )
    def get(self, request: Request, session: str) -> HttpResponseBase:
        row = self.get_session(request, session)
        after = number_of(request, "after", 0)
        # A commit changes the seq. A trace that moves to another session changes the count.
        visibility = payload_views.sight(request, row).visibility
        etag = f'"{self.FORMAT}-{visibility}-{row.session_key}-{row.last_seq}-{row.span_count}-{after}"'
        if request.headers.get("If-None-Match") == etag:
            return HttpResponseNotModified(headers={"ETag": etag})
        traces = queries.traces(row, visibility)
        spans = queries.tree_json(row, visibility, after=after, with_traces=len(traces) != 1)
        body = f'{{"seq": {row.last_seq}, "traces": {json.dumps(traces)}, "spans": {spans}}}'
        return HttpResponse(body, content_type="application/json", headers={"ETag": etag})


class TokenList(ReadView):
    """The checks of a session, as the token timeline draws them."""

    @extend_schema(
        operation_id="session_tokens",
        responses=inline_serializer(
            "Tokens",
            {
                "seq": serializers.IntegerField(),
                "results": CheckSerializer(many=True),
                "projected_turns": serializers.IntegerField(allow_null=True),
                "story": serializers.CharField(),
                "repeats": serializers.ListField(
                    child=serializers.CharField(), help_text="Tool calls that repeat a call from before a compaction."
                ),
            },
        ),
    )
    def get(self, request: Request, session: str) -> Response:
        row = self.get_session(request, session)
        session_checks = queries.checks(row, payload_views.sight(request, row).visibility)
        checks = session_checks.timeline()
        return Response(
            {
                "seq": row.last_seq,
                "results": [check_json(check) for check in checks],
                "projected_turns": projected_turns(checks),
                "story": describe_session(checks, provider_count=len(session_checks.provider_compactions)),
                "repeats": queries.repeated_calls(row, [check for check in checks if check.is_compaction]),
            }
        )


class SpanDetail(ReadView):
    """One span, addressed by `trace_id:span_id`, or by its span id and `session`."""

    @extend_schema(
        operation_id="span",
        parameters=[
            query_parameter("session", "The session of the span."),
            query_parameter(
                "payload",
                "0 omits the payload. 1 fails with 403 if you don't have permission to view it.",
                OpenApiTypes.INT,
            ),
            query_parameter("reason", "Why you view the payload. Some projects require it. It is recorded."),
        ],
        responses=SpanSchema,
    )
    def get(self, request: Request, span: str) -> Response:
        grant = access.request_grant(request)
        session = find_session(grant, span, request.query_params.get("session", ""))
        payload_option = request.query_params.get("payload", "")
        if payload_option == "1":
            payload_views.require_content(request, session)
        full_span = queries.span(session, span, with_payload=payload_option != "0")
        if full_span is None:
            raise Http404
        sight = payload_views.sight(request, session)
        if sight.has_content and full_span.has_content:
            payload_views.record_view(request, session, part=full_span.row.key)
        seen = full_span.as_seen(sight.visibility)
        content = {**span_json(seen.row), "session": session.session_id, "has_payload": seen.has_payload}
        if seen.payload is not None:
            content["payload"] = seen.payload
            content["hidden"] += hidden_fields(seen.payload, "payload")
        return Response(content)


def find_session(grant: access.Grant, span_name: str, session: str) -> Session:
    """Return the session of a span: the given one, else that of its trace, else any that has this span id."""
    if session:
        return access.get_session(grant, session, Right.SESSIONS)
    projects = grant.projects(Right.SESSIONS)
    for trace_id, _ in queries.split_name(span_name):
        if row := queries.session_of_trace(projects, trace_id):
            return row
    row = queries.session_of_span(projects, span_name)
    if row is None:
        raise Http404
    return row
