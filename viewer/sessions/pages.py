"""The HTML pages. Each asks `access`, then `queries`, then `reducer`; templates only lay out."""

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
from viewer.compactions.comparison import Messages, Side, compare_messages, compare_sides
from viewer.kinds import KINDS
from viewer.page_frame import current_project, first_event
from viewer.sessions import queries
from viewer.sessions.checks import Check
from viewer.sessions.descriptions import describe_session
from viewer.sessions.inspection import inspect
from viewer.sessions.serializers import event_json
from viewer.sessions.session_checks import projected_turns, removals

# Enough to read before any script runs; the script brings the rest.
FIRST_ROWS = 60
FIRST_EVENTS = 200
# More compactions than one reads in a list; what is shown is asked for again with each new one.
OVERVIEW_ITEMS = 200


@access.needs(Right.SESSIONS)
def session_list(request: HttpRequest) -> HttpResponse:
    project = current_project(request)
    assert project is not None
    wanted = queries.SessionFilter.from_query(request.GET)
    sessions, more = queries.sessions_page([project.pk], wanted)
    context = {
        "project": project,
        "sessions": sessions,
        "titles": queries.titles(sessions),
        "next": _with(request, before=more) if more else "",
        "wanted": wanted,
        "is_filtered": bool(wanted.q or wanted.model or wanted.state),
        "is_first_page": wanted.before is None,
        "last_seq": queries.last_seq(project.pk),
    }
    if request.GET.get("fragment") == "rows":
        return render(request, "sessions/_session_rows.html", context)
    context["stats"] = queries.fleet([project.pk])
    if request.GET.get("fragment") == "stats":
        return render(request, "sessions/_stats.html", context)
    context |= {
        "models": queries.models_in([project.pk]),
        "first": first_event(request, project.pk) if not sessions and not context["is_filtered"] else None,
    }
    return render(request, "sessions/session_list.html", context)


@access.needs(Right.SESSIONS)
def session_detail(request: HttpRequest, session: str) -> HttpResponse:
    found = access.session(access.grant(request), session)
    checks = queries.checks(found).timeline()
    context = {
        "session": found,
        "titles": queries.titles([found]),
        **_overview(checks),
        "story": describe_session(checks),
        "projected": projected_turns(checks),
        "rows": queries.first_spans(found, limit=FIRST_ROWS),
    }
    if name := request.GET.get("span"):
        context["inspected"] = _inspected(request, found, name)
    return render(request, "sessions/session_detail.html", context)


@access.needs(Right.SESSIONS)
def inspector(request: HttpRequest, session: str) -> HttpResponse:
    """What the inspector shows of one span, as a piece of a page; without `span`, the session's overview."""
    found = access.session(access.grant(request), session)
    if name := request.GET.get("span"):
        return render(
            request, "sessions/_inspector.html", {"session": found, "inspected": _inspected(request, found, name)}
        )
    return render(
        request, "sessions/_compaction_list.html", {"session": found} | _overview(queries.checks(found).timeline())
    )


@access.needs(Right.PAYLOAD)
def payload(request: HttpRequest, session: str) -> HttpResponse:
    """The texts of one span, as a piece of a page. That they were looked at is written down first."""
    found = access.session(access.grant(request), session, Right.PAYLOAD)
    span = _span(found, request.GET.get("span", ""))
    log.record(request, Action.PAYLOAD_VIEW, project_id=found.project_id, target=f"{found.session_id}/{span.row.key}")
    text = json.dumps(span.payload, indent=2, ensure_ascii=False)
    return render(request, "sessions/_payload.html", {"text": text, "span": span.row})


@access.needs(Right.TAIL)
def tail(request: HttpRequest) -> HttpResponse:
    project = current_project(request, Right.TAIL)
    assert project is not None
    last_seq = queries.last_seq(project.pk)
    newest = queries.newest_spans(project.pk, limit=FIRST_EVENTS)
    # What was committed since comes over the socket, which begins where the page ends.
    events = [event_json(session, span) for session, span in newest if span.seq <= last_seq]
    wanted = {name: request.GET.get(name, "")[:200] for name in ("session", "kind", "status", "q", "regex")}
    context = {"project": project, "last_seq": last_seq, "events": events, "wanted": wanted, "kinds": KINDS.values()}
    return render(request, "live/tail.html", context | {"first": None if events else first_event(request, project.pk)})


@access.needs(Right.SESSIONS)
def compare(request: HttpRequest) -> HttpResponse:
    """Two sessions, or two compactions, side by side: `?a=…&b=…`, with `an` and `bn` to choose compactions."""
    grant = access.grant(request)
    project = current_project(request)
    names = {name: request.GET.get(name, "") for name in ("a", "b")}
    numbers = {name: request.GET.get(f"{name}n", "") for name in ("a", "b")}
    sides = {name: _side(grant, wanted, numbers[name]) for name, wanted in names.items() if wanted}
    found = [side for side in sides.values() if side is not None]
    recent, _ = queries.sessions_page([project.pk] if project else [], queries.SessionFilter())
    context = {
        **names,
        "an": numbers["a"],
        "bn": numbers["b"],
        "missing": [names[name] for name, side in sides.items() if side is None],
        "recent": recent,
        "comparison": compare_sides(*found) if len(found) == 2 else None,
        "messages": _messages(*found) if len(found) == 2 else None,
    }
    return render(request, "compactions/compare.html", context, status=404 if context["missing"] else 200)


def _messages(a: Side, b: Side) -> Messages | None:
    if a.chosen is None or b.chosen is None:
        return None
    return compare_messages(queries.fate_ledger(a.session, a.chosen), queries.fate_ledger(b.session, b.chosen))


def _side(grant: access.Grant, name: str, number: str) -> Side | None:
    try:
        session = access.session(grant, name)
    except Http404:
        return None
    return Side(
        session, queries.checks(session).timeline(), int(number) if number.isascii() and number.isdigit() else None
    )


def _inspected(request: HttpRequest, session: Session, name: str) -> dict[str, Any]:
    may_payload = access.grant(request).may(Right.PAYLOAD, session.project_id)
    return inspect(_span(session, name), queries.checks(session), may_payload=may_payload)


def _span(session: Session, name: str) -> queries.FullSpan:
    found = queries.span(session, name, with_payload=True)
    if found is None:
        raise Http404("no such span")
    return found


def _overview(checks: list[Check]) -> dict[str, Any]:
    rows = removals(checks)
    return {"removals": rows[-OVERVIEW_ITEMS:], "older": max(0, len(rows) - OVERVIEW_ITEMS)}


def _with(request: HttpRequest, **changes: Any) -> str:
    query = request.GET.copy()
    query.pop("fragment", None)
    for name, value in changes.items():
        query[name] = str(value)
    return f"?{query.urlencode()}"
