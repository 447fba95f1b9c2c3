"""Audit entries of logins, expired transcripts and denied requests, written by signals and middleware."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from ingest.models import Project
from viewer.audit import foreign_objects
from viewer.audit.log import Action, Origin, client_address, record
from viewer.models import AuditEntry

Outcome = AuditEntry.Outcome
# Addresses at which a 404 may be an attempt to guess another project's object.
_GUARDED = ("/sessions/", "/transcripts/", "/audit/", "/api/", "/tail/", "/keys/", "/tokens/", "/projects/", "/admin/")


@sync_and_async_middleware
def log_denied_requests(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Record every request of a logged-in user that was denied, or that named an object they have no access to."""
    if iscoroutinefunction(get_response):

        async def respond_async(request: HttpRequest) -> HttpResponseBase:
            response: HttpResponseBase = await get_response(request)
            if _is_denied(request, response):
                await sync_to_async(_record_denied)(request, response)
            return response

        return respond_async

    def respond(request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = get_response(request)
        if _is_denied(request, response):
            _record_denied(request, response)
        return response

    return respond


def _is_denied(request: HttpRequest, response: HttpResponseBase) -> bool:
    return response.status_code == 403 or (response.status_code == 404 and request.path.startswith(_GUARDED))


def _record_denied(request: HttpRequest, response: HttpResponseBase) -> None:
    # With an API token, DRF sets the user on the Django request too.
    if request.user.is_authenticated:
        target = f"{request.method} {request.path}"
        # To the user, a mistyped address and an object of another project look the same. The log tells them apart.
        is_missing = response.status_code == 404 and not foreign_objects.is_named_in(request)
        action, outcome = (Action.NOT_FOUND, Outcome.NOT_FOUND) if is_missing else (Action.DENIED, Outcome.DENIED)
        record(request, action, target=target, outcome=outcome, status=response.status_code)


def record_login(sender: Any, request: HttpRequest, user: User, **_: Any) -> None:
    record(_origin(user, user.get_username(), request), Action.LOGIN)


def record_logout(sender: Any, request: HttpRequest, user: User | None, **_: Any) -> None:
    if user is not None:
        record(_origin(user, user.get_username(), request), Action.LOGOUT)


def record_login_failure(
    sender: Any, credentials: Mapping[str, Any], request: HttpRequest | None = None, **_: Any
) -> None:
    name = str(credentials.get("username") or "")
    record(_origin(_find_user(name), name, request), Action.LOGIN_FAILED, outcome=Outcome.DENIED)


def record_lockout(sender: Any, request: HttpRequest, username: str | None = None, **_: Any) -> None:
    name = username or ""
    record(_origin(_find_user(name), name, request), Action.LOCKED_OUT, outcome=Outcome.DENIED)


def record_expiry(sender: Any, project: Project, count: int, reason: str, **_: Any) -> None:
    record(Origin(None, "retention"), Action.TRANSCRIPT_DELETE, project_id=project.pk, reason=reason, count=count)


def record_deletion(sender: Any, project_id: int, target: str, counts: Mapping[str, Any], **_: Any) -> None:
    project = Project.objects.filter(pk=project_id).first()
    reason = f"older than {project.retention_days} days" if project else "the project was deleted"
    record(Origin(None, "retention"), Action.DATA_DELETE, project_id=project_id, target=target, reason=reason, **counts)


def record_accepted_clock(sender: Any, problem: str, reason: str, **_: Any) -> None:
    record(Origin(None, "manage.py partitions"), Action.CLOCK_ACCEPT, reason=reason, problem=problem)


def _find_user(name: str) -> User | None:
    return User.objects.filter(username=name).first()


def _origin(user: User | None, name: str, request: HttpRequest | None) -> Origin:
    user_id = user.pk if user else None
    if request is None:
        return Origin(user_id, name)
    return Origin(user_id, name, client_address(request.META), request.META.get("HTTP_USER_AGENT", ""))
