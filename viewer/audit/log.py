"""The audit log: who did what, when, from where and why.

Lines are only ever added; the database refuses the rest, and each line carries the hash of the one before it, so that
a change made around the database's back is found too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone
from django.utils.decorators import sync_and_async_middleware
from rest_framework.request import Request

from ingest.archive.hash_chain import canonical, format_time
from ingest.models import Project
from viewer.accounts.access import Grant, Right
from viewer.models import AuditEntry, Membership

VERSION = "ariadne-audit/1"
_LOCK = 0x7E88
_TEXT_MAX_CHARS = 1000
# Where a guess at somebody else's object would be made.
_GUARDED = ("/sessions/", "/transcripts/", "/audit/", "/api/", "/tail/", "/keys/", "/tokens/", "/projects/", "/admin/")
# Line breaks forge lines in logs, other control characters forge terminals; Postgres refuses NUL.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Action(StrEnum):
    LOGIN = "login"
    LOGIN_FAILED = "login.failed"
    LOCKED_OUT = "login.locked"
    LOGOUT = "logout"
    DENIED = "access.denied"
    PAYLOAD_VIEW = "payload.view"
    TRANSCRIPT_VIEW = "transcript.view"
    TRANSCRIPT_DOWNLOAD = "transcript.download"
    BUNDLE_DOWNLOAD = "bundle.download"
    TRANSCRIPT_DELETE = "transcript.delete"
    ARCHIVE_VERIFY = "archive.verify"
    AUDIT_EXPORT = "audit.export"
    KEY_CREATE = "key.create"
    KEY_ROTATE = "key.rotate"
    KEY_REVOKE = "key.revoke"
    TOKEN_CREATE = "token.create"  # noqa: S105 - a name of an act
    TOKEN_REVOKE = "token.revoke"  # noqa: S105
    PROJECT_CHANGE = "project.change"
    USER_CHANGE = "user.change"


@dataclass(frozen=True, slots=True)
class Origin:
    """Who acts, and from where."""

    actor_id: int | None
    actor: str
    address: str = ""
    agent: str = ""


def origin_of(request: HttpRequest | Request) -> Origin:
    user = request.user if hasattr(request, "user") else None
    token = getattr(request, "auth", None)
    name = user.get_username() if user is not None else ""
    return Origin(
        actor_id=user.pk if user is not None else None,
        actor=f"{name} (token {token.hint}…)" if token is not None else name,
        address=client_address(request.META),
        agent=request.META.get("HTTP_USER_AGENT", ""),
    )


def origin_of_scope(scope: Mapping[str, Any]) -> Origin:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope.get("headers", ())}
    user = scope.get("user")
    meta = {"HTTP_X_FORWARDED_FOR": headers.get("x-forwarded-for", ""), "REMOTE_ADDR": (scope.get("client") or [""])[0]}
    return Origin(
        actor_id=getattr(user, "pk", None),
        actor=user.get_username() if user is not None else "",
        address=client_address(meta),
        agent=headers.get("user-agent", ""),
    )


def client_address(meta: Mapping[str, Any]) -> str:
    """The caller's address. `X-Forwarded-For` counts only as far as our own proxies wrote it: a caller can send one."""
    proxies: int = settings.TRUSTED_PROXIES
    hops = [part.strip() for part in str(meta.get("HTTP_X_FORWARDED_FOR", "")).split(",") if part.strip()]
    if proxies and len(hops) >= proxies:
        return hops[-proxies]
    return str(meta.get("REMOTE_ADDR") or "")


def request_address(request: HttpRequest) -> str:
    return client_address(request.META)


def record(
    origin: Origin | HttpRequest | Request,
    action: Action,
    *,
    project_id: int | None = None,
    target: str = "",
    reason: str = "",
    denied: bool = False,
    **detail: Any,
) -> AuditEntry:
    """Write one line. Values in `detail` are JSON and hold no secret."""
    if not isinstance(origin, Origin):
        origin = origin_of(origin)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        last = AuditEntry.objects.order_by("-position").values_list("position", "hash").first()
        entry = AuditEntry(
            position=last[0] + 1 if last else 0,
            at=timezone.now(),
            actor_id=origin.actor_id,
            actor=clean(origin.actor),
            address=clean(origin.address),
            agent=clean(origin.agent),
            action=action.value,
            outcome=AuditEntry.Outcome.DENIED if denied else AuditEntry.Outcome.OK,
            project_id=project_id,
            target=clean(target),
            reason=clean(reason),
            detail=detail,
            previous=last[1] if last else "",
        )
        entry.hash = entry_hash(entry)
        entry.save(force_insert=True)
    return entry


arecord = sync_to_async(record)


def entry_hash(entry: AuditEntry) -> str:
    fields = {
        name: getattr(entry, name)
        for name in (
            *("position", "actor_id", "actor", "address", "agent", "action", "project_id", "target"),
            *("reason", "detail", "previous"),
        )
    }
    whole = {"version": VERSION, "at": format_time(entry.at), "outcome": str(entry.outcome), **fields}
    return hashlib.sha256(canonical(whole)).hexdigest()


def faults(entries: Iterable[AuditEntry] | None = None) -> list[str]:
    """What is wrong with the log; nothing when no line was removed, changed or moved."""
    if entries is None:
        entries = AuditEntry.objects.order_by("position").iterator(chunk_size=2000)
    found: list[str] = []
    previous, expected = "", 0
    for entry in entries:
        if entry.position != expected:
            found.append(f"audit lines {expected} to {entry.position - 1} are missing")
        elif entry.previous != previous:
            found.append(f"audit line {entry.position} does not follow the one before it")
        if entry_hash(entry) != entry.hash:
            found.append(f"audit line {entry.position} was changed")
        previous, expected = entry.hash, entry.position + 1
    return found


def visible_entries(held: Grant) -> QuerySet[AuditEntry]:
    """The lines of the projects one audits, and what their people did outside any project (logins, refusals)."""
    projects = held.projects(Right.AUDIT)
    people = Membership.objects.filter(project_id__in=projects).values("user_id")
    mine = Q(project_id__in=projects) | Q(project_id__isnull=True, actor_id__in=people)
    if held.is_everyones:
        mine = Q()
    return AuditEntry.objects.filter(mine).order_by("-position")


def clean(text: str) -> str:
    return _CONTROL.sub("\ufffd", text)[:_TEXT_MAX_CHARS]


@sync_and_async_middleware
def refusals(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Write down every refusal of a person who is logged in: the right they lack, or the object they guessed at."""
    if iscoroutinefunction(get_response):

        async def answer(request: HttpRequest) -> HttpResponseBase:
            response: HttpResponseBase = await get_response(request)
            if _is_refusal(request, response):
                await sync_to_async(_note_refusal)(request, response)
            return response

        return answer

    def answer_now(request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = get_response(request)
        if _is_refusal(request, response):
            _note_refusal(request, response)
        return response

    return answer_now


def _is_refusal(request: HttpRequest, response: HttpResponseBase) -> bool:
    return response.status_code == 403 or (response.status_code == 404 and request.path.startswith(_GUARDED))


def _note_refusal(request: HttpRequest, response: HttpResponseBase) -> None:
    # DRF leaves a token's owner on the request it wraps, not on ours.
    if request.user.is_authenticated:
        target = f"{request.method} {request.path}"
        record(request, Action.DENIED, target=target, denied=True, status=response.status_code)


def note_login(sender: Any, request: HttpRequest, user: User, **_: Any) -> None:
    record(Origin(user.pk, user.get_username(), *_where(request)), Action.LOGIN)


def note_logout(sender: Any, request: HttpRequest, user: User | None, **_: Any) -> None:
    if user is not None:
        record(Origin(user.pk, user.get_username(), *_where(request)), Action.LOGOUT)


def note_login_failure(
    sender: Any, credentials: Mapping[str, Any], request: HttpRequest | None = None, **_: Any
) -> None:
    name = str(credentials.get("username") or "")
    known = User.objects.filter(username=name).first()
    record(Origin(known.pk if known else None, name, *_where(request)), Action.LOGIN_FAILED, denied=True)


def note_lockout(sender: Any, request: HttpRequest, username: str | None = None, **_: Any) -> None:
    known = User.objects.filter(username=username or "").first()
    record(Origin(known.pk if known else None, username or "", *_where(request)), Action.LOCKED_OUT, denied=True)


def note_expiry(sender: Any, project: Project, count: int, reason: str, **_: Any) -> None:
    record(Origin(None, "retention"), Action.TRANSCRIPT_DELETE, project_id=project.pk, reason=reason, count=count)


def _where(request: HttpRequest | None) -> tuple[str, str]:
    if request is None:
        return "", ""
    return client_address(request.META), request.META.get("HTTP_USER_AGENT", "")
