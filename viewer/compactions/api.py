"""Compactions over REST."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework.request import Request
from rest_framework.response import Response

from viewer.audit import payload_views
from viewer.rest import ReadView
from viewer.sessions import queries
from viewer.sessions.serializers import CheckSerializer, check_json


class CompactionList(ReadView):
    """The compactions of a session, numbered as on its pages."""

    @extend_schema(
        operation_id="session_compactions",
        responses=inline_serializer("Compactions", {"results": CheckSerializer(many=True)}),
    )
    def get(self, request: Request, session: str) -> Response:
        owner = self.get_session(request, session)
        compactions = queries.checks(owner, payload_views.sight(request, owner).visibility).compactions()
        return Response({"results": [{"n": n, **check_json(check)} for n, check in enumerate(compactions, 1)]})
