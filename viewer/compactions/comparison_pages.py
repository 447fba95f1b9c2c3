"""The page that compares two sessions or two compactions."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponseBase

from ingest.models import Session
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.audit import payload_views
from viewer.chat import parse_message
from viewer.compactions.comparison import MAX_LISTED, MessageComparison, Side, compare_messages, compare_sides
from viewer.compactions.queries import fate_ledger, message_bodies
from viewer.page_frame import current_project
from viewer.page_response import send_page
from viewer.sessions import queries
from viewer.sessions.session_list import SessionFilter, sessions_page


@access.requires(Right.SESSIONS)
def compare(request: HttpRequest) -> HttpResponseBase:
    """Compare `?a=…&b=…`. The parameters `an` and `bn` select a compaction of each session."""
    names = {side: request.GET.get(side, "") for side in ("a", "b")}
    numbers = {side: request.GET.get(f"{side}n", "") for side in ("a", "b")}
    sessions = {side: _find_session(request, name) for side, name in names.items() if name}
    missing = [names[side] for side, session in sessions.items() if session is None]
    chosen = [(session, numbers[side]) for side, session in sessions.items() if session is not None]
    known = {**names, "an": numbers["a"], "bn": numbers["b"], "missing": missing, "max_listed": MAX_LISTED}
    return send_page(
        request,
        "compactions/compare.html",
        known,
        lambda: _comparison_context(request, chosen),
        status=404 if missing else 200,
    )


def _comparison_context(request: HttpRequest, chosen: list[tuple[Session, str]]) -> dict[str, Any]:
    project = current_project(request)
    sides = [_get_side(request, session, number) for session, number in chosen]
    messages = _compare_messages(*sides) if len(sides) == 2 else None
    notes = _describe_numbers(sides, [number for _, number in chosen])
    recent, _ = sessions_page([project.pk] if project else [], SessionFilter())
    return {
        "recent": recent,
        "notes": notes,
        "comparison": compare_sides(*sides) if len(sides) == 2 else None,
        "messages": messages,
        "previews": _previews(request, sides, messages) if messages else {},
    }


def _describe_numbers(sides: list[Side], numbers: list[str]) -> list[str]:
    """Say why a compaction number of the address is not used. Both sides need one."""
    notes = [
        f"{side.session.session_id} has no compaction {number}, only {len(side.compactions):,}."
        for side, number in zip(sides, numbers, strict=True)
        if number and side.chosen is None
    ]
    if len(sides) == 2 and any(numbers) and not all(side.chosen for side in sides):
        notes.append("The whole sessions are compared. Enter a compaction number for both to compare two compactions.")
    return notes


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


def _find_session(request: HttpRequest, name: str) -> Session | None:
    try:
        return access.get_session(access.request_grant(request), name)
    except Http404:
        return None


def _get_side(request: HttpRequest, session: Session, number: str) -> Side:
    compaction = int(number) if number.isascii() and number.isdigit() else None
    return Side(
        session, queries.checks(session, payload_views.sight(request, session).visibility).timeline(), compaction
    )
