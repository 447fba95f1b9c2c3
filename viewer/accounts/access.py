"""Who may see what. The one module that decides, for pages, REST, websockets and downloads alike.

A person's groups say what they may do, their memberships where; a membership may add a role for that project alone.
An object of a project that is not yours does not exist (404); an object of yours that you may not see is refused (403).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import wraps
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Permission, User
from django.contrib.auth.views import redirect_to_login
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.backends.db import SessionStore
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseNotAllowed
from django.utils import timezone
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from ingest.models import Project, Session, Transcript, session_key
from viewer.kinds import kind_of
from viewer.models import ApiToken, Membership

AnyUser = AbstractBaseUser | AnonymousUser


class Right(StrEnum):
    """The permissions of `Membership`, by the names they have in the database."""

    SESSIONS = "view_session"
    PAYLOAD = "view_payload"
    TAIL = "view_tail"
    KEYS = "manage_own_keys"
    TRANSCRIPTS = "view_transcript"
    AUDIT = "view_audit"
    MANAGE = "manage_project"


EVERY_RIGHT = frozenset(Right)
_NAMES = {right.value for right in Right}


@dataclass(frozen=True, slots=True)
class Grant:
    """What one person, or one token of theirs, may do: rights by project. Nobody's grant is empty."""

    user_id: int | None = None
    username: str = ""
    rights: Mapping[int, frozenset[Right]] = field(default_factory=dict)
    is_everyones: bool = False  # a superuser's: sees also what belongs to no project

    def may(self, right: Right, project_id: int) -> bool:
        return right in self.rights.get(project_id, ())

    def projects(self, right: Right) -> frozenset[int]:
        """The projects in which this is allowed: what every query is filtered by."""
        return frozenset(project_id for project_id, rights in self.rights.items() if right in rights)

    def require(self, right: Right, project_id: int) -> None:
        if project_id not in self.rights:
            raise Http404
        if not self.may(right, project_id):
            raise PermissionDenied(f"this needs the right {right.value}")

    def narrowed(self, *, scopes: Iterable[str], project_id: int | None) -> Grant:
        """This grant as seen through an API token: never more than its owner, never more than its scopes."""
        kept = frozenset(Right(scope) for scope in scopes if scope in _NAMES)
        rights = {p: held & kept for p, held in self.rights.items() if project_id in {None, p}}
        return Grant(self.user_id, self.username, rights)


NOBODY = Grant()


def grant_of(user: AnyUser) -> Grant:
    """The rights of `user` now, in two queries. Superusers may do everything everywhere."""
    if not isinstance(user, User) or not user.is_active:
        return NOBODY
    if user.is_superuser:
        everything = dict.fromkeys(Project.objects.values_list("pk", flat=True), EVERY_RIGHT)
        return Grant(user.pk, user.get_username(), everything, is_everyones=True)
    held = _rights(Permission.objects.filter(Q(user=user) | Q(group__user=user)))
    memberships = Membership.objects.filter(user=user).select_related("role").prefetch_related("role__permissions")
    rights = {
        m.project_id: held | (_named(p.codename for p in m.role.permissions.all()) if m.role else frozenset())
        for m in memberships
    }
    return Grant(user.pk, user.get_username(), rights)


def may(user: AnyUser, project: Project | int, right: Right) -> bool:
    return grant_of(user).may(right, project if isinstance(project, int) else project.pk)


def grant(request: HttpRequest | Request) -> Grant:
    """The grant behind a request, computed once; a request that came with an API token has the token's."""
    bare = request._request if isinstance(request, Request) else request
    user, token = request.user, getattr(request, "auth", None)
    cached: tuple[object, object, Grant] | None = getattr(bare, "_grant", None)
    if cached is None or cached[0] is not token or cached[1] != user.pk:
        found = grant_of(user)
        if token is not None:
            found = found.narrowed(scopes=token.scopes, project_id=token.project_id)
        cached = (token, user.pk, found)
        bare._grant = cached  # type: ignore[attr-defined]
    return cached[2]


async def socket_grant(scope: Mapping[str, Any]) -> Grant:
    """The grant behind a websocket, computed anew at each call: long-lived sockets ask again, so that rights end."""
    return await sync_to_async(_socket_grant)(scope)


def _socket_grant(scope: Mapping[str, Any]) -> Grant:
    user: AnyUser = scope.get("user") or AnonymousUser()
    if user.pk is not None:
        user = User.objects.filter(pk=user.pk).first() or AnonymousUser()
    token: ApiToken | None = scope.get("token")
    if token is None:
        return grant_of(user) if _is_still_signed_in(scope, user) else NOBODY
    token = ApiToken.objects.filter(pk=token.pk, revoked_at=None).first()
    if token is None or (token.expires_at is not None and token.expires_at <= timezone.now()):
        return NOBODY
    return grant_of(user).narrowed(scopes=token.scopes, project_id=token.project_id)


View = Callable[..., HttpResponseBase]


def _is_still_signed_in(scope: Mapping[str, Any], user: AnyUser) -> bool:
    """Whether the login behind a socket has not ended meanwhile; its own copy of the session would not know."""
    session: SessionBase | None = scope.get("session")
    if session is None or user.pk is None:
        return True
    return SessionStore(session.session_key).get(SESSION_KEY) == str(user.pk)


def needs(right: Right, *methods: str) -> Callable[[View], View]:
    """A page for people who have `right` in some project; others are sent to the login, or refused.

    Pages answer GET and HEAD, unless `methods` says otherwise.
    """
    allowed = methods or ("GET", "HEAD")

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return redirect_to_login(request.get_full_path())
            if not grant(request).projects(right):
                raise PermissionDenied(f"this needs the right {right.value}")
            if request.method not in allowed:
                return HttpResponseNotAllowed(allowed)
            return view(request, *args, **kwargs)

        return guarded

    return decorate


class Needs(BasePermission):
    """DRF's question, asked here: the view names its `right`."""

    def has_permission(self, request: Request, view: Any) -> bool:
        right: Right = view.right
        return bool(grant(request).projects(right))


def session(
    held: Grant, name: str | uuid.UUID, right: Right = Right.SESSIONS, *, project_id: int | None = None
) -> Session:
    """The session called `name` (its key, or the id its agent gave it) where the holder of the grant may see it.

    Two projects may use one id for two sessions: then the one that changed last, unless `project_id` chooses.
    """
    text = str(name)
    mine = [p for p in held.rights if project_id in {None, p}]
    keys = {session_key(p, text) for p in mine}
    if (key := _uuid(text)) is not None:
        keys.add(key)
    found = Session.objects.filter(session_key__in=keys, project_id__in=mine).order_by("-last_seq").first()
    if found is None:
        raise Http404("no such session")
    held.require(right, found.project_id)
    return found


asession = sync_to_async(session)


def transcript(held: Grant, key: uuid.UUID, step: int, right: Right = Right.TRANSCRIPTS) -> Transcript:
    """One archived step, where the holder of the grant may see it."""
    found = Transcript.objects.filter(session_key=key, step=step, project_id__in=list(held.rights)).first()
    if found is None:
        raise Http404("no such transcript")
    held.require(right, found.project_id)
    return found


def visible_payload(grant: Grant, project_id: int, kind: str, payload: Any) -> Any:
    """Return the part of a payload that the holder may read: all of it, its public fields, or None."""
    if payload is None or grant.may(Right.PAYLOAD, project_id):
        return payload
    public = kind_of(kind).public_payload
    if not public or not isinstance(payload, dict) or not grant.may(Right.SESSIONS, project_id):
        return None
    return {name: _public_part(payload[name], keys) for name, keys in public.items() if name in payload}


def _public_part(value: Any, keys: frozenset[str] | None) -> Any:
    if keys is None:
        return value
    rows = value if isinstance(value, list) else []
    return [{key: row[key] for key in keys if key in row} for row in rows if isinstance(row, dict)]


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def _rights(permissions: Any) -> frozenset[Right]:
    own = permissions.filter(content_type__app_label="viewer", content_type__model="membership")
    return _named(own.values_list("codename", flat=True))


def _named(codenames: Iterable[str]) -> frozenset[Right]:
    return frozenset(Right(name) for name in codenames if name in _NAMES)
