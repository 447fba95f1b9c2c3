"""The session list and the page of one session."""

from __future__ import annotations

import json
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from ingest.models import Session
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.audit import log
from viewer.audit.log import Action
from viewer.page_frame import current_project, setup_help
from viewer.sessions import queries, session_list
from viewer.sessions.checks import Check
from viewer.sessions.descriptions import describe_session
from viewer.sessions.inspection import inspect
from viewer.sessions.session_checks import projected_turns, removals

# Rows that the page shows before its script has loaded the tree.
FIRST_ROWS = 60
# The list is rendered again with each new compaction, so its length is limited.
MAX_COMPACTIONS = 200


@access.requires(Right.SESSIONS)
def sessions(request: HttpRequest) -> HttpResponse:
    """The session list, or one of its fragments: `rows` or `stats`."""
    project = current_project(request)
    assert project is not None
    filters = session_list.SessionFilter.from_query(request.GET)
    page, cursor = session_list.sessions_page([project.pk], filters)
    context = {
        "project": project,
        "sessions": page,
        "titles": session_list.titles(page),
        "next": _next_page(request, cursor) if cursor else "",
        "filters": filters,
        "is_filtered": filters.is_active,
        "is_first_page": filters.before is None,
        "last_seq": queries.last_seq(project.pk),
    }
    if request.GET.get("fragment") == "rows":
        return render(request, "sessions/_session_rows.html", context)
    context["stats"] = session_list.session_stats([project.pk])
    if request.GET.get("fragment") == "stats":
        return render(request, "sessions/_stats.html", context)
    context |= {
        "models": session_list.recent_models([project.pk]),
        "setup": setup_help(request, project.pk) if not page and not filters.is_active else None,
    }
    return render(request, "sessions/session_list.html", context)


@access.requires(Right.SESSIONS)
def session_detail(request: HttpRequest, name: str) -> HttpResponse:
    session = access.get_session(access.request_grant(request), name)
    checks = queries.checks(session).timeline()
    context = {
        "session": session,
        "titles": session_list.titles([session]),
        **_compaction_list(checks),
        "story": describe_session(checks),
        "projected": projected_turns(checks),
        "rows": queries.first_spans(session, limit=FIRST_ROWS),
    }
    if span_name := request.GET.get("span"):
        context["inspected"] = _inspect(request, session, span_name)
    return render(request, "sessions/session_detail.html", context)


@access.requires(Right.SESSIONS)
def inspector(request: HttpRequest, name: str) -> HttpResponse:
    """The inspector fragment of one span, or the list of compactions without `span`."""
    session = access.get_session(access.request_grant(request), name)
    if span_name := request.GET.get("span"):
        context = {"session": session, "inspected": _inspect(request, session, span_name)}
        return render(request, "sessions/_inspector.html", context)
    context = {"session": session, **_compaction_list(queries.checks(session).timeline())}
    return render(request, "sessions/_compaction_list.html", context)


@access.requires(Right.PAYLOAD)
def payload(request: HttpRequest, name: str) -> HttpResponse:
    """The payload fragment of one span. Each view is recorded in the audit log first."""
    session = access.get_session(access.request_grant(request), name, Right.PAYLOAD)
    span = _get_span(session, request.GET.get("span", ""))
    target = f"{session.session_id}/{span.row.key}"
    log.record(request, Action.PAYLOAD_VIEW, project_id=session.project_id, target=target)
    text = json.dumps(span.payload, indent=2, ensure_ascii=False)
    return render(request, "sessions/_payload.html", {"text": text, "span": span.row})


def _inspect(request: HttpRequest, session: Session, span_name: str) -> dict[str, Any]:
    may_payload = access.request_grant(request).may(Right.PAYLOAD, session.project_id)
    return inspect(_get_span(session, span_name), queries.checks(session), may_payload=may_payload)


def _get_span(session: Session, name: str) -> queries.FullSpan:
    span = queries.span(session, name, with_payload=True)
    if span is None:
        raise Http404("No such span.")
    return span


def _compaction_list(checks: list[Check]) -> dict[str, Any]:
    rows = removals(checks)
    return {"removals": rows[-MAX_COMPACTIONS:], "older": max(0, len(rows) - MAX_COMPACTIONS)}


def _next_page(request: HttpRequest, cursor: str) -> str:
    query = request.GET.copy()
    query.pop("fragment", None)
    query["before"] = cursor
    return f"?{query.urlencode()}"
