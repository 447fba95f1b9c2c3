"""Decide whether a reader sees the content of a session, and record that they did.

A view counts for one person and one session. It is recorded in the audit log before the content is sent, and again only
after `WINDOW`. If the project demands a reason, content stays hidden until the person gives one, and is hidden again
after `WINDOW`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models.fields.json import KT
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.request import Request

from ingest.clock_tolerance import latest_time
from ingest.models import Project, Session
from viewer.accounts import access
from viewer.accounts.access import Grant, Right
from viewer.audit import log
from viewer.audit.log import Action, Origin
from viewer.models import AuditEntry
from viewer.rest import BadFilter
from viewer.visibility.public_parts import Visibility

WINDOW = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Sight:
    """The part of a session that a reader sees, and what is missing to see more."""

    visibility: Visibility
    may_payload: bool
    needs_reason: bool

    @property
    def has_content(self) -> bool:
        return self.visibility is Visibility.CONTENT


def sight_of(grant: Grant, session: Session) -> Sight:
    """Return what the holder of a grant sees of a session now."""
    may_payload = grant.may(Right.PAYLOAD, session.project_id)
    needs_reason = may_payload and _demands_reason(session.project_id) and not _is_open(grant.user_id, session)
    visibility = Visibility.CONTENT if may_payload and not needs_reason else Visibility.METADATA
    return Sight(visibility, may_payload, needs_reason)


def sight(request: HttpRequest | Request, session: Session) -> Sight:
    """Return what the sender of a request sees. A `reason` in its query or form opens the session for `WINDOW`."""
    grant = access.request_grant(request)
    current = sight_of(grant, session)
    reason = reason_of(request)
    if current.needs_reason and reason:
        record_view(request, session, reason=reason)
        return Sight(Visibility.CONTENT, may_payload=True, needs_reason=False)
    return current


def require_content(request: HttpRequest | Request, session: Session) -> None:
    """Raise PermissionDenied without the right to view payloads, and BadFilter if a reason is missing."""
    access.request_grant(request).require(Right.PAYLOAD, session.project_id)
    if sight(request, session).needs_reason:
        raise BadFilter("reason", "This project requires a reason to view payloads. Enter one.")


def project_visibility(grant: Grant, project_id: int) -> Visibility:
    """Return what pages about many sessions show, such as the tail. They cannot ask for a reason for each session."""
    is_open = grant.may(Right.PAYLOAD, project_id) and not _demands_reason(project_id)
    return Visibility.CONTENT if is_open else Visibility.METADATA


def record_view(request: HttpRequest | Request, session: Session, *, reason: str = "", part: str = "") -> None:
    """Record that the reader sees content of a session, unless that was recorded within `WINDOW`."""
    record_view_by(log.origin_of(request), session, reason=reason or reason_of(request), part=part)


def record_view_by(origin: Origin, session: Session, *, reason: str = "", part: str = "") -> None:
    """Record a view of someone who sent no HTTP request, such as the reader of a websocket."""
    # Entries are never removed, so a view that is recorded needs no lock. All writers of the log share it.
    if _is_open(origin.actor_id, session):
        return
    with transaction.atomic():
        log.lock()
        if _is_open(origin.actor_id, session):
            return
        log.record(
            origin,
            Action.PAYLOAD_VIEW,
            project_id=session.project_id,
            target=session.session_id,
            reason=reason,
            session=session.session_id,
            session_key=str(session.session_key),
            first=part,
        )


def record_tail_view(origin: Origin | HttpRequest, grant: Grant, project_id: int) -> None:
    """Record that the reader sees content of a project's live events, unless that was recorded within `WINDOW`."""
    _record_project_view(origin, grant, project_id, Action.TAIL_VIEW, "live events")


def record_search_view(origin: Origin | HttpRequest | Request, grant: Grant, project_id: int) -> None:
    """Record that search shows the reader content of a project, unless that was recorded within `WINDOW`."""
    _record_project_view(origin, grant, project_id, Action.SEARCH_VIEW, "search")


def _record_project_view(
    origin: Origin | HttpRequest | Request, grant: Grant, project_id: int, action: Action, target: str
) -> None:
    recent = AuditEntry.objects.filter(
        actor_id=grant.user_id,
        action=action.value,
        project_id=project_id,
        at__range=_window(),
    )
    if recent.exists():
        return
    with transaction.atomic():
        log.lock()
        if not recent.exists():
            log.record(origin, action, project_id=project_id, target=target)


def reason_of(request: HttpRequest | Request) -> str:
    """Return the reason in the query or the form of a request."""
    data = request.POST if request.method == "POST" else request.GET
    parts = [str(data.get(name, "")).strip() for name in ("reason", "note")]
    return log.clean_input(": ".join(part for part in parts if part))


def _demands_reason(project_id: int) -> bool:
    return Project.objects.filter(pk=project_id, requires_view_reason=True).exists()


def _window() -> tuple[datetime, datetime]:
    """Return the times of entries that still count. A clock that was ahead may have left later ones."""
    return timezone.now() - WINDOW, latest_time()


def _is_open(user_id: int | None, session: Session) -> bool:
    entries = AuditEntry.objects.annotate(key=KT("detail__session_key")).filter(
        key=str(session.session_key),
        actor_id=user_id,
        action=Action.PAYLOAD_VIEW.value,
        at__range=_window(),
    )
    return entries.exists()
