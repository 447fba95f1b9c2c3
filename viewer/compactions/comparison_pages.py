"""The page that compares two sessions or two compactions."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.audit import payload_views
from viewer.chat import parse_message
from viewer.compactions.comparison import MAX_LISTED, MessageComparison, Side, compare_messages, compare_sides
from viewer.compactions.queries import fate_ledger, message_bodies
from viewer.page_frame import current_project
from viewer.sessions import queries
from viewer.sessions.session_list import SessionFilter, sessions_page


@access.requires(Right.SESSIONS)
def compare(request: HttpRequest) -> HttpResponse:
    """Compare `?a=…&b=…`. The parameters `an` and `bn` select a compaction of each session."""
    project = current_project(request)
    names = {side: request.GET.get(side, "") for side in ("a", "b")}
    numbers = {side: request.GET.get(f"{side}n", "") for side in ("a", "b")}
    sides = {side: _get_side(request, name, numbers[side]) for side, name in names.items() if name}
    existing = [side for side in sides.values() if side is not None]
    messages = _compare_messages(*existing) if len(existing) == 2 else None
    recent, _ = sessions_page([project.pk] if project else [], SessionFilter())
    context = {
        **names,
        "an": numbers["a"],
        "bn": numbers["b"],
        "missing": [names[name] for name, side in sides.items() if side is None],
        "recent": recent,
        "comparison": compare_sides(*existing) if len(existing) == 2 else None,
        "messages": messages,
        "max_listed": MAX_LISTED,
        "previews": _previews(request, existing, messages) if messages else {},
    }
    return render(request, "compactions/compare.html", context, status=404 if context["missing"] else 200)


def _compare_messages(a: Side, b: Side) -> MessageComparison | None:
    if a.chosen is None or b.chosen is None:
        return None
    return compare_messages(fate_ledger(a.session, a.chosen), fate_ledger(b.session, b.chosen))


def _previews(request: HttpRequest, sides: list[Side], messages: MessageComparison) -> dict[str, str]:
    """Return the first words of the listed messages, by hash, of the sessions whose content the reader may see."""
    previews: dict[str, str] = {}
    for side in sides:
        if payload_views.sight(request, side.session).has_content:
            payload_views.record_view(request, side.session, part="comparison")
            bodies = message_bodies(side.session, messages.hashes)
            previews |= {digest: parse_message(body).preview for digest, body in bodies.items()}
    return previews


def _get_side(request: HttpRequest, name: str, number: str) -> Side | None:
    try:
        session = access.get_session(access.request_grant(request), name)
    except Http404:
        return None
    compaction = int(number) if number.isascii() and number.isdigit() else None
    return Side(
        session, queries.checks(session, payload_views.sight(request, session).visibility).timeline(), compaction
    )
