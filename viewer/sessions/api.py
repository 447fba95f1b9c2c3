"""The reading API. Each view asks `access`, then `queries`, then answers."""

from __future__ import annotations

import json
from typing import Any

from django.http import Http404, HttpResponse, HttpResponseNotModified
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from ingest.models import Session
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.audit import log
from viewer.audit.log import Action
from viewer.sessions import queries
from viewer.sessions.descriptions import describe_session
from viewer.sessions.serializers import CheckSerializer, SessionSerializer, SpanSchema, check_json, span_json
from viewer.sessions.session_checks import projected_turns

MAX_PAGE = 1_000


def _parameter(name: str, description: str, kind: Any = OpenApiTypes.STR) -> OpenApiParameter:
    return OpenApiParameter(name, kind, OpenApiParameter.QUERY, description=description)


def _number(request: Request, name: str, default: int, *, most: int | None = None) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ValidationError({name: "must be a whole number"})
    return min(int(text), most) if most else int(text)


def next_address(request: Request, name: str, value: object) -> str | None:
    """The address of the next page: this one, from `value` on."""
    if value is None:
        return None
    query = request.query_params.copy()
    query[name] = str(value)
    return request.build_absolute_uri(f"{request.path}?{query.urlencode()}")


class ReadView(APIView):
    permission_classes = [access.Needs]
    right = Right.SESSIONS

    def session(self, request: Request, name: str) -> Session:
        return access.session(access.grant(request), name, self.right)


class SessionList(ReadView):
    """Sessions, newest activity first."""

    @extend_schema(
        operation_id="sessions",
        parameters=[
            _parameter("q", "text in the session id or the model"),
            _parameter("model", "exact model"),
            _parameter("state", "near, running, compacted, errors, fallback or lossy"),
            _parameter("limit", f"at most {MAX_PAGE}", OpenApiTypes.INT),
            _parameter("before", "where the page begins; `next` has it"),
        ],
        responses=inline_serializer(
            "SessionPage",
            {"results": SessionSerializer(many=True), "next": serializers.URLField(allow_null=True)},
        ),
    )
    def get(self, request: Request) -> Response:
        wanted = queries.SessionFilter.from_query(request.query_params)
        if request.query_params.get("before") and wanted.before is None:
            raise ValidationError({"before": "must be as `next` has it"})
        limit = max(1, _number(request, "limit", queries.PAGE_SIZE, most=MAX_PAGE))
        page, more = queries.sessions_page(access.grant(request).projects(self.right), wanted, limit=limit)
        results = SessionSerializer(page, many=True).data
        return Response({"results": results, "next": next_address(request, "before", more)})


class SessionDetail(ReadView):
    """One session with its traces."""

    @extend_schema(operation_id="session", responses=SessionSerializer)
    def get(self, request: Request, session: str) -> Response:
        found = self.session(request, session)
        return Response({**SessionSerializer(found).data, "traces": queries.traces(found)})


class SpanList(ReadView):
    """The spans of a session in the order in which they last changed."""

    @extend_schema(
        operation_id="session_spans",
        parameters=[
            _parameter("after", "where the page begins; `next` has it", OpenApiTypes.INT64),
            _parameter("limit", f"at most {MAX_PAGE}", OpenApiTypes.INT),
            _parameter("kind", "one kind"),
            _parameter("status", "ok or error"),
        ],
        responses=inline_serializer(
            "SpanPage",
            {"results": serializers.ListField(child=SpanSchema), "next": serializers.URLField(allow_null=True)},
        ),
    )
    def get(self, request: Request, session: str) -> Response:
        found = self.session(request, session)
        limit = max(1, _number(request, "limit", 200, most=MAX_PAGE))
        rows = queries.spans_page(
            found,
            after=_number(request, "after", 0),
            limit=limit + 1,
            kind=request.query_params.get("kind", ""),
            status=request.query_params.get("status", ""),
        )
        more = rows[limit - 1].seq if len(rows) > limit else None
        results = [span_json(row) for row in rows[:limit]]
        return Response({"results": results, "next": next_address(request, "after", more)})


class SpanTree(ReadView):
    """All spans of a session in one response, as columns.

    Each column is a list with one value per span. Times are Unix milliseconds. `trace` is null if all spans belong to
    the only trace in `traces`.
    """

    #: Part of the ETag, so that a page never reads a cached response of an older server.
    FORMAT = 3

    @extend_schema(
        operation_id="session_tree",
        parameters=[_parameter("after", "Only changes after this seq.", OpenApiTypes.INT64)],
        responses=inline_serializer(
            "Tree",
            {
                "seq": serializers.IntegerField(),
                "traces": serializers.ListField(child=serializers.DictField()),
                "spans": inline_serializer(
                    "TreeColumns",
                    {
                        "trace": serializers.ListField(child=serializers.CharField(), allow_null=True),
                        "id": serializers.ListField(child=serializers.CharField()),
                        "parent": serializers.ListField(child=serializers.CharField(allow_null=True)),
                        "kind": serializers.ListField(child=serializers.CharField()),
                        "name": serializers.ListField(child=serializers.CharField()),
                        "status": serializers.ListField(child=serializers.CharField()),
                        "start": serializers.ListField(child=serializers.IntegerField(allow_null=True)),
                        "end": serializers.ListField(child=serializers.IntegerField(allow_null=True)),
                        "tokens": serializers.ListField(child=serializers.IntegerField(allow_null=True)),
                    },
                ),
            },
        ),
    )
    def get(self, request: Request, session: str) -> HttpResponseBase:
        row = self.session(request, session)
        after = _number(request, "after", 0)
        # A commit changes the seq. A trace that moves to another session changes the count.
        etag = f'"{self.FORMAT}-{row.session_key}-{row.last_seq}-{row.span_count}-{after}"'
        if request.headers.get("If-None-Match") == etag:
            return HttpResponseNotModified(headers={"ETag": etag})
        traces = queries.traces(row)
        spans = queries.tree_json(row, after=after, with_traces=len(traces) != 1)
        body = f'{{"seq": {row.last_seq}, "traces": {json.dumps(traces)}, "spans": {spans}}}'
        return HttpResponse(body, content_type="application/json", headers={"ETag": etag})


class TokenList(ReadView):
    """Every check of a session: the token timeline."""

    @extend_schema(
        operation_id="session_tokens",
        responses=inline_serializer(
            "Tokens",
            {
                "seq": serializers.IntegerField(),
                "results": CheckSerializer(many=True),
                "projected_turns": serializers.IntegerField(allow_null=True),
                "story": serializers.CharField(),
            },
        ),
    )
    def get(self, request: Request, session: str) -> Response:
        found = self.session(request, session)
        checks = queries.checks(found).timeline()
        return Response(
            {
                "seq": found.last_seq,
                "results": [check_json(check) for check in checks],
                "projected_turns": projected_turns(checks),
                "story": describe_session(checks),
            }
        )


class CompactionList(ReadView):
    """The compactions of a session, numbered as its pages number them."""

    @extend_schema(
        operation_id="session_compactions",
        responses=inline_serializer("Compactions", {"results": CheckSerializer(many=True)}),
    )
    def get(self, request: Request, session: str) -> Response:
        found = self.session(request, session)
        compactions = queries.checks(found).compactions()
        return Response({"results": [{"n": n, **check_json(check)} for n, check in enumerate(compactions, 1)]})


class SpanDetail(ReadView):
    """One span, named `trace_id:span_id`, or by its span id together with `session`."""

    @extend_schema(
        operation_id="span",
        parameters=[
            _parameter("session", "the session it belongs to"),
            _parameter("payload", "0 without the payload, 1 to be refused where it may not be seen", OpenApiTypes.INT),
        ],
        responses=SpanSchema,
    )
    def get(self, request: Request, span: str) -> Response:
        grant = access.grant(request)
        session = find_session(grant, span, request.query_params.get("session", ""))
        wanted = request.query_params.get("payload", "")
        if wanted == "1":
            grant.require(Right.PAYLOAD, session.project_id)
        found = queries.span(session, span, with_payload=wanted != "0")
        if found is None:
            raise Http404
        answer = {**span_json(found.row), "session": session.session_id, "has_payload": found.has_payload}
        payload = access.visible_payload(grant, session.project_id, found.row.kind, found.payload)
        if payload is not None:
            answer["payload"] = payload
            if grant.may(Right.PAYLOAD, session.project_id):
                target = f"{session.session_id}/{found.row.key}"
                log.record(request, Action.PAYLOAD_VIEW, project_id=session.project_id, target=target)
        return Response(answer)


def find_session(grant: access.Grant, name: str, session: str) -> Session:
    """The session of the span called `name`: the one given, else its trace's, else wherever that span id is."""
    if session:
        return access.session(grant, session, Right.SESSIONS)
    projects = grant.projects(Right.SESSIONS)
    parts = name.split(":")
    for at in range(len(parts) - 1, 0, -1):
        if owner := queries.session_of_trace(projects, ":".join(parts[:at])):
            return owner
    owner = queries.session_of_span(projects, name)
    if owner is None:
        raise Http404
    return owner
