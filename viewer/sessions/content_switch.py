"""The switch with which a reader shows the content of one session. It belongs to a login and is off at first."""

from __future__ import annotations

from django.http import HttpRequest

from ingest.models import Session

_KEY = "shown_content"
# The cookie's session row stays small. Content of sessions that were opened longer ago is hidden again.
_MAX_SESSIONS = 50


def is_on(request: HttpRequest, session: Session) -> bool:
    return str(session.session_key) in request.session.get(_KEY, [])


def turn_on(request: HttpRequest, session: Session) -> None:
    turn_off(request, session)
    request.session[_KEY] = [*request.session.get(_KEY, []), str(session.session_key)][-_MAX_SESSIONS:]


def turn_off(request: HttpRequest, session: Session) -> None:
    request.session[_KEY] = [key for key in request.session.get(_KEY, []) if key != str(session.session_key)]
