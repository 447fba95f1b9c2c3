"""The tail: live events of all sessions in a project."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponseBase

from ingest.models import Project
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.audit import payload_views
from viewer.kinds import KINDS
from viewer.live import queries
from viewer.page_frame import current_project
from viewer.page_response import send_page
from viewer.sessions.queries import last_seq
from viewer.sessions.serializers import event_json
from viewer.visibility.public_parts import Visibility

FIRST_EVENTS = 200


@access.requires(Right.TAIL)
def tail(request: HttpRequest) -> HttpResponseBase:
    project = current_project(request, Right.TAIL)
    assert project is not None
    known = {
        "project": project,
        "kinds": KINDS.values(),
        "filters": {name: request.GET.get(name, "")[:200] for name in ("session", "kind", "status", "q", "regex")},
    }
    return send_page(request, "live/tail.html", known, lambda: _newest_events(request, project))


def _newest_events(request: HttpRequest, project: Project) -> dict[str, Any]:
    seq = last_seq(project.pk)
    visibility = payload_views.project_visibility(access.request_grant(request), project.pk)
    if visibility is Visibility.CONTENT:
        payload_views.record_tail_view(request, access.request_grant(request), project.pk)
    newest = queries.newest_spans(project.pk, visibility, limit=FIRST_EVENTS)
    # The socket continues after `seq` and sends everything that was committed since.
    return {"last_seq": seq, "events": [event_json(session, span) for session, span in newest if span.seq <= seq]}
