"""Compactions over REST."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework.request import Request
from rest_framework.response import Response

from viewer.audit import payload_views
from viewer.compactions import queries
from viewer.kinds import RETENTION
from viewer.rest import ReadView
from viewer.sessions import queries as session_queries
from viewer.sessions.serializers import CheckSerializer, check_json


class CompactionList(ReadView):
    """The compactions of a session, numbered as on its pages.

    Readers who may view payloads also get `facts_lost`: the kind, text, sentence and source messages of each lost fact
    that the client listed.
    """

    @extend_schema(
        operation_id="session_compactions",
        responses=inline_serializer("Compactions", {"results": CheckSerializer(many=True)}),
    )
    def get(self, request: Request, session: str) -> Response:
        owner = self.get_session(request, session)
        sight = payload_views.sight(request, owner)
        compactions = session_queries.checks(owner, sight.visibility).compactions()
        results = [{"n": n, **check_json(check)} for n, check in enumerate(compactions, 1)]
        if sight.has_content and any(check.facts and check.facts.lost for check in compactions):
            payload_views.record_view(request, owner, part="lost facts")
            spans = [check.span(RETENTION) for check in compactions]
            payloads = queries.payloads(owner, [span for span in spans if span])
            for row, check, span in zip(results, compactions, spans, strict=True):
                row["facts_lost"] = queries.lost_in_sentences(owner, check, payloads.get(span.key) if span else None)
        return Response({"results": results})
