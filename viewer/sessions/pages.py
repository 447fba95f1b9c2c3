"""The session list and the page of one session."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.safestring import SafeString

from ingest.models import Project, Session
from ingest.storage.figures.table import Page, figures_on
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.accounts.snippets import connection
from viewer.alerts.pages import recent_alerts
from viewer.audit import payload_views
from viewer.audit.payload_views import Sight
from viewer.costs.queries import session_costs
from viewer.kinds import GENERATION, TURN
from viewer.page_frame import current_project
from viewer.page_response import send_page
from viewer.sessions import content_switch, labels, overview, queries, session_list
from viewer.sessions.checks import Check
from viewer.sessions.conversation import SpanMessage, conversation_of, with_spans
from viewer.sessions.descriptions import describe_session
from viewer.sessions.inspection import inspect
from viewer.sessions.lines import TOOL, line_of
from viewer.sessions.session_checks import projected_turns
from viewer.sessions.session_rows import label_tags, render_rows, session_rows
from viewer.visibility.public_parts import Visibility

# Rows that the page shows before its script has loaded the tree.
FIRST_ROWS = 60
# The list is rendered again with each new compaction, so its length is limited.
MAX_COMPACTIONS = 200
# A check of another outcome was not meant to change the prompt, or could not gain anything.
_LISTED_OUTCOMES = frozenset({"compacted", "failed", "running"})
# The browser asks for the rows on a screen.
MAX_LINES = 100


@access.requires(Right.SESSIONS)
def sessions(request: HttpRequest) -> HttpResponseBase:
    """The session list, or one of its fragments: `rows` or `stats`."""
    project = current_project(request)
    assert project is not None
    filters = session_list.SessionFilter.from_query(request.GET, request.user.pk)
    visibility = payload_views.project_visibility(access.request_grant(request), project.pk)
    fragment = request.GET.get("fragment")
    if fragment == "rows":
        page, _ = session_list.sessions_page({project.pk: visibility}, filters)
        return HttpResponse(_rows(project, page, visibility))
    if fragment == "stats":
        return render(request, "sessions/_stats.html", _statistics(project, filters))
    return send_page(
        request, "sessions/session_list.html", {}, lambda: _list_context(request, project, filters, visibility)
    )


def _list_context(
    request: HttpRequest, project: Project, filters: session_list.SessionFilter, visibility: Visibility
) -> dict[str, Any]:
    # Read before the page, so that live updates send what the page has missed.
    last_seq = queries.last_seq(project.pk)
    page, cursor = session_list.sessions_page({project.pk: visibility}, filters)
    return {
        "project": project,
        "rows": _rows(project, page, visibility),
        "next": _address(request, before=cursor) if cursor else "",
        "is_filtered": filters.is_active,
        # The order of receipt, which is not that of the agents' clocks in the last column.
        "unsorted": _address(request, sort=None, before=None) if filters.sort else "",
        "is_first_page": filters.before is None,
        "last_seq": last_seq,
        **_statistics(project, filters),
        "searched_sessions": (
            session_list.SEARCHED_SESSIONS if session_list.is_search_limited(project.pk, filters) else None
        ),
        "models": session_list.recent_models([project.pk]),
        "label_menus": _label_menus(project.pk, filters, visibility),
        "needs_payload_right": any(
            not labels.visible_keys(kind, value, visibility) for kind, value in filters.labels.items()
        ),
        "connection": connection(request),
        "ranges": list(_RANGE_LABELS.items()),
        "columns": _columns(request, filters),
        "hidden_columns": [
            name for name in request.GET.get("hide", "").split(",") if name in {*_COLUMN_NAMES.values(), "tags"}
        ],
        "other_parameters": [(name, request.GET[name]) for name in ("sort", "hide") if request.GET.get(name)],
    }


def _rows(project: Project, page: Sequence[Session], visibility: Visibility) -> SafeString:
    rows = session_rows(
        page,
        titles=session_list.titles(page, visibility),
        labels=labels.session_labels(page, visibility),
        costs=session_costs(project.pk, [session.session_key for session in page]),
    )
    return render_rows(rows)


def _statistics(project: Project, filters: session_list.SessionFilter) -> dict[str, Any]:
    """Return the figures above the list."""
    now = timezone.now()
    return {
        "filters": filters,
        "states": session_list.STATE_LABELS.items(),
        "figures": overview.figures([project.pk], filters.range, now),
        "figures_period": _RANGE_LABELS[overview.period_name(filters.range)],
        "attention": [] if filters.is_search else overview.attention([project.pk], filters.range, now),
        "alerts": (
            [] if filters.is_search else recent_alerts(project.pk, now - session_list.RANGES[filters.range or "24h"])
        ),
        "span_of_time": _RANGE_LABELS.get(filters.range, "24 hours"),
    }


def _label_menus(
    project_id: int, filters: session_list.SessionFilter, visibility: Visibility
) -> list[tuple[str, list[str], str]]:
    """Return the kind, the values and the chosen value of each menu. Kinds that no session has are left out."""
    menus = []
    for kind, values in labels.menu_labels(project_id, visibility).items():
        chosen = filters.labels.get(kind, "")
        shown = [*values, chosen] if chosen and chosen not in values else values
        if shown:
            menus.append((kind, shown, chosen))
    return menus


_RANGE_LABELS = {"1h": "hour", "24h": "24 hours", "7d": "7 days", "30d": "30 days"}
# The names of two columns in addresses and style sheets differ from those of their figures.
_COLUMN_NAMES = {figure.name: figure.name for figure in figures_on(Page.LIST)} | {"peak": "use", "last_at": "last"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the list. `href` sorts by it, in the other direction if it is the order already."""

    name: str
    label: str
    definition: str
    href: str
    order: str  # the value of aria-sort

    @property
    def is_number(self) -> bool:
        return self.name not in {"model", "tags", "use", "last"}


def _columns(request: HttpRequest, filters: session_list.SessionFilter) -> list[Column]:
    columns = []
    for figure in figures_on(Page.LIST):
        sort = figure.name if figure.order else ""
        order = {sort: "ascending", f"-{sort}": "descending"}.get(filters.sort, "") if sort else ""
        href = _address(request, sort=sort if order == "descending" else f"-{sort}", before=None) if sort else ""
        columns.append(Column(_COLUMN_NAMES[figure.name], figure.label, figure.definition, href, order))
        if figure.name == "model":
            columns.append(Column("tags", "Tags", "Labels from the metadata of traces.", "", ""))
    return columns


@access.requires(Right.SESSIONS)
def session_detail(request: HttpRequest, name: str) -> HttpResponseBase:
    session = access.get_session(access.request_grant(request), name)
    if request.GET.get("fragment") == "head":
        visibility = payload_views.sight(request, session).visibility
        return render(request, "sessions/_live_parts.html", _head_context(session, visibility))
    span_name = request.GET.get("span")
    span = _get_span(session, span_name) if span_name else None
    return send_page(
        request, "sessions/session_detail.html", {"session": session}, lambda: _session_context(request, session, span)
    )


def _head_context(session: Session, visibility: Visibility) -> dict[str, Any]:
    """Return what the texts and figures above the chart show."""
    session_checks = queries.checks(session, visibility)
    checks = session_checks.timeline()
    return {
        "session": session,
        "checks": checks,
        "labels": label_tags(labels.session_labels([session], visibility).get(session.session_key, [])),
        "story": describe_session(checks, provider_count=len(session_checks.provider_compactions)),
        "failed_count": sum(check.has_failed for check in checks),
        "projected": projected_turns(checks),
    }


def _session_context(request: HttpRequest, session: Session, span: queries.FullSpan | None) -> dict[str, Any]:
    sight = payload_views.sight(request, session)
    head = _head_context(session, sight.visibility)
    return {
        **head,
        "sight": sight,
        "titles": session_list.titles([session], sight.visibility),
        **_compaction_list(head["checks"]),
        "rows": queries.first_spans(session, sight.visibility, limit=FIRST_ROWS),
        "inspected": _inspect(request, session, span, sight) if span else None,
    }


@access.requires(Right.SESSIONS)
def inspector(request: HttpRequest, name: str) -> HttpResponse:
    """The inspector fragment of one span, or the list of compactions without `span`."""
    session = access.get_session(access.request_grant(request), name)
    sight = payload_views.sight(request, session)
    if span_name := request.GET.get("span"):
        context = {
            "session": session,
            "sight": sight,
            "inspected": _inspect(request, session, _get_span(session, span_name), sight),
        }
        return render(request, "sessions/_inspector.html", context)
    context = {"session": session, **_compaction_list(queries.checks(session, sight.visibility).timeline())}
    return render(request, "sessions/_compaction_list.html", context)


@access.requires(Right.SESSIONS)
def lines(request: HttpRequest, name: str) -> HttpResponse:
    """JSON with one line for each `span`: the arguments of a tool call, or a message."""
    session = access.get_session(access.request_grant(request), name)
    sight = payload_views.sight(request, session)
    spans = queries.spans_with_arguments(session, request.GET.getlist("span")[:MAX_LINES])
    if sight.has_content and any(text or row != row.as_seen(Visibility.METADATA) for row, text in spans):
        payload_views.record_view(request, session, part="lines")
    return JsonResponse(
        {row.key: line_of(row.as_seen(sight.visibility), text if sight.has_content else None) for row, text in spans}
    )


@access.requires(Right.PAYLOAD)
def payload(request: HttpRequest, name: str) -> HttpResponse:
    """The payload fragment of one span. The view is recorded in the audit log first."""
    session = access.get_session(access.request_grant(request), name, Right.PAYLOAD)
    span = _get_span(session, request.GET.get("span", ""))
    if payload_views.sight(request, session).needs_reason:
        return render(request, "sessions/_reason_required.html", {"session": session}, status=400)
    payload_views.record_view(request, session, part=span.row.key)
    text = json.dumps(span.payload, indent=2, ensure_ascii=False)
    return render(request, "sessions/_payload.html", {"text": text, "span": span.row})


@access.requires(Right.PAYLOAD, "POST")
def payload_access(request: HttpRequest, name: str) -> HttpResponse:
    """Show or hide the content of a session. Showing it is recorded, with a reason if the project demands one."""
    session = access.get_session(access.request_grant(request), name, Right.PAYLOAD)
    has_reason = not payload_views.sight(request, session).needs_reason
    if not has_reason:
        messages.error(request, "Enter a reason. It is recorded in the audit log.")
    elif request.POST.get("show") == "0":
        content_switch.turn_off(request, session)
    else:
        payload_views.record_view(request, session, part="session")
        content_switch.turn_on(request, session)
    if request.POST.get("fragment"):
        return HttpResponse(status=204 if has_reason else 400)
    target = request.POST.get("next", "")
    is_own = url_has_allowed_host_and_scheme(target, allowed_hosts={request.get_host()})
    return redirect(target if is_own else reverse("session-detail", args=[session.session_key]))


def _inspect(request: HttpRequest, session: Session, span: queries.FullSpan, sight: Sight) -> dict[str, Any]:
    if sight.has_content and span.has_content:
        payload_views.record_view(request, session, part=span.row.key)
    seen = inspect(span.as_seen(sight.visibility), queries.checks(session, sight.visibility))
    is_shown = sight.has_content and content_switch.is_on(request, session)
    chat = _conversation(session, span) if is_shown else []
    has_messages = bool(chat) or span.has_payload or span.row.kind in {GENERATION, TOOL, TURN}
    return {**seen, "chat": chat, "is_shown": is_shown, "has_messages": has_messages}


def _conversation(session: Session, span: queries.FullSpan) -> list[SpanMessage]:
    """Return the messages of a span. A turn has those of its calls."""
    row = span.row
    own = with_spans([("", conversation_of(row.kind, row.name, row.data, span.payload))])
    if row.kind != TURN:
        return own
    return own + with_spans(
        (call.row.key, conversation_of(call.row.kind, call.row.name, call.row.data, call.payload))
        for call in queries.children(session, row)
    )


def _get_span(session: Session, name: str) -> queries.FullSpan:
    span = queries.span(session, name, with_payload=True)
    if span is None:
        raise Http404("No such span.")
    return span


def _compaction_list(checks: list[Check]) -> dict[str, Any]:
    numbers = count(1)
    rows = [
        (next(numbers) if check.is_compaction else None, check) for check in checks if check.outcome in _LISTED_OUTCOMES
    ]
    return {
        "compactions": rows[-MAX_COMPACTIONS:],
        "older": max(0, len(rows) - MAX_COMPACTIONS),
        "has_calls": bool(checks),
    }


def _address(request: HttpRequest, **changes: str | None) -> str:
    """Return the address of the list with other parameters. None removes one."""
    query = request.GET.copy()
    query.pop("fragment", None)
    for name, value in changes.items():
        if value is None:
            query.pop(name, None)
        else:
            query[name] = value
    return f"?{query.urlencode()}"
