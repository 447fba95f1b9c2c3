"""Access control for pages, REST, websockets and downloads.

A user's groups determine what they may do, and their memberships where. A membership may add a role for its project
only. Objects of a project that the user is not a member of do not exist (404). Objects of the user's own projects
that they may not see are forbidden (403).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import wraps
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Permission, User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db.models import F, Q
from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseNotAllowed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from ingest.cells import cells_of, learn
from ingest.decoding.door.pseudonyms import clean_id
from ingest.models import Project, Session, Transcript, session_key
from viewer.models import ApiToken, Membership
from viewer.project_redactor import read_rules

AnyUser = AbstractBaseUser | AnonymousUser


class Right(StrEnum):
    """The permissions of `Membership`. The values are their code names in the database."""

    SESSIONS = "view_session"
    PAYLOAD = "view_payload"
    TAIL = "view_tail"
    KEYS = "manage_own_keys"
    TRANSCRIPTS = "view_transcript"
    AUDIT = "view_audit"
    MANAGE = "manage_project"


ALL_RIGHTS = frozenset(Right)
_CODENAMES = {right.value for right in Right}
_ACTIONS = {
    Right.SESSIONS: "view sessions",
    Right.PAYLOAD: "view payloads",
    Right.TAIL: "view live events",
    Right.KEYS: "manage ingest keys and alert rules",
    Right.TRANSCRIPTS: "view transcripts",
    Right.AUDIT: "view the audit log",
    Right.MANAGE: "manage this project",
}


def permission_denied(right: Right) -> PermissionDenied:
    return PermissionDenied(f"You don't have permission to {_ACTIONS[right]}.")


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of a user or an API token, by project. Anonymous users have an empty grant."""

    user_id: int | None = None
    username: str = ""
    rights: Mapping[int, frozenset[Right]] = field(default_factory=dict)
    is_superuser: bool = False  # also sees objects that belong to no project

    def may(self, right: Right, project_id: int) -> bool:
        return right in self.rights.get(project_id, ())

    def projects(self, right: Right) -> frozenset[int]:
        """Return the projects in which the right is granted. Every query is filtered by these."""
        return frozenset(project_id for project_id, rights in self.rights.items() if right in rights)

    def require(self, right: Right, project_id: int) -> None:
        if project_id not in self.rights:
            raise Http404
        if not self.may(right, project_id):
            raise permission_denied(right)

    def restrict(self, *, scopes: Iterable[str], project_id: int | None) -> Grant:
        """Return the grant of an API token: the owner's rights limited to its scopes and its project."""
        allowed = _rights(scopes)
        rights = {p: rights & allowed for p, rights in self.rights.items() if project_id in {None, p}}
        return Grant(self.user_id, self.username, rights)


EMPTY_GRANT = Grant()


def user_grant(user: AnyUser) -> Grant:
    """Return the current rights of a user, in two queries. Superusers have all rights in all projects."""
    if not isinstance(user, User) or not user.is_active:
        return EMPTY_GRANT
    if user.is_superuser:
        counts = dict(Project.objects.values_list("pk", "cell_count"))
        learn(counts.items())
        rights = dict.fromkeys(counts, ALL_RIGHTS)
        return Grant(user.pk, user.get_username(), rights, is_superuser=True)
    permissions = Permission.objects.filter(
        Q(user=user) | Q(group__user=user), content_type__app_label="viewer", content_type__model="membership"
    )
    from_groups = _rights(permissions.values_list("codename", flat=True))
    memberships = Membership.objects.filter(user=user).select_related("role").prefetch_related("role__permissions")
    memberships = memberships.annotate(cell_count=F("project__cell_count"))
    learn((membership.project_id, membership.cell_count) for membership in memberships)
    return Grant(user.pk, user.get_username(), {m.project_id: from_groups | _role_rights(m) for m in memberships})


def _role_rights(membership: Membership) -> frozenset[Right]:
    if membership.role is None:
        return frozenset()
    return _rights(permission.codename for permission in membership.role.permissions.all())


def grant_of(user: AnyUser, token: ApiToken | None = None) -> Grant:
    """Return the current rights of a user, or of one of their API tokens. Every reader's rights come from here."""
    grant = user_grant(user)
    return grant if token is None else grant.restrict(scopes=token.scopes, project_id=token.project_id)


def request_grant(request: HttpRequest | Request) -> Grant:
    """Return the grant of a request, computed once. A request with an API token has the token's grant."""
    django_request = request._request if isinstance(request, Request) else request
    user, token = request.user, getattr(request, "auth", None)
    cached: tuple[object, object, Grant] | None = getattr(django_request, "_grant", None)
    if cached is None or cached[0] is not token or cached[1] != user.pk:
        grant = grant_of(user, token)
        cached = (token, user.pk, grant)
        django_request._grant = cached  # type: ignore[attr-defined]
    return cached[2]


View = Callable[..., HttpResponseBase]


def requires(right: Right, *methods: str) -> Callable[[View], View]:
    """Restrict a page to users who have `right` in at least one project.

    Anonymous users are redirected to the login page. Pages accept GET and HEAD unless `methods` are given.
    """
    return _restrict(lambda grant: bool(grant.projects(right)), permission_denied(right), methods)


def requires_superuser(view: View) -> View:
    """Restrict a page, which is about no project, to people with all rights in all projects."""
    denied = PermissionDenied("You don't have permission to view the status of the server.")
    return _restrict(lambda grant: grant.is_superuser, denied, ())(view)


def _restrict(
    may: Callable[[Grant], bool], denied: PermissionDenied, methods: tuple[str, ...]
) -> Callable[[View], View]:
    allowed = methods or ("GET", "HEAD")

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return redirect_to_login(request.get_full_path())
            if not may(request_grant(request)):
                raise denied
            if request.method not in allowed:
                return HttpResponseNotAllowed(allowed)
            return view(request, *args, **kwargs)

        return guarded

    return decorate


class HasRight(BasePermission):
    """DRF permission: the caller has the `right` of the view in at least one project."""

    def has_permission(self, request: Request, view: Any) -> bool:
        right: Right = view.right
        return bool(request_grant(request).projects(right))


def get_session(
    grant: Grant, name: str | uuid.UUID, right: Right = Right.SESSIONS, *, project_id: int | None = None
) -> Session:
    """Return the session with this key or id, or raise Http404 or PermissionDenied.

    If several projects have a session with the same id, return the one that changed last, unless `project_id` is
    given.
    """
    text = str(name)
    projects = [p for p in grant.rights if project_id in {None, p}]
    keys = {session_key(p, text) for p in projects}
    if (key := parse_uuid(text)) is not None:
        keys.add(key)
    session = _newest_session(projects, keys) or _newest_session(projects, _pseudonym_keys(projects, text))
    if session is None:
        raise Http404("No such session.")
    grant.require(right, session.project_id)
    return session


def _newest_session(projects: list[int], keys: set[uuid.UUID]) -> Session | None:
    sessions = (
        Session.objects.filter(cell__in=cells_of(*projects), session_key__in=keys) if keys else Session.objects.none()
    )
    return sessions.order_by("-last_seq").first()


def _pseudonym_keys(projects: list[int], text: str) -> set[uuid.UUID]:
    """Return the keys of the session whose id contains a secret, which is stored under a pseudonym."""
    names = {project: clean_id(text, read_rules(project)) for project in projects}
    return {session_key(project, name) for project, name in names.items() if name != text}


aget_session = sync_to_async(get_session)


def get_transcript(grant: Grant, key: uuid.UUID, step: int, right: Right = Right.TRANSCRIPTS) -> Transcript:
    """Return the transcript of one step of a session, or raise Http404 or PermissionDenied."""
    transcripts = Transcript.objects.filter(cell__in=cells_of(*grant.rights), session_key=key, step=step)
    transcript = transcripts.first()
    if transcript is None:
        raise Http404("No such transcript.")
    grant.require(right, transcript.project_id)
    return transcript


def parse_uuid(text: str) -> uuid.UUID | None:
    """Return the key that a text is, or None if it is none."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def _rights(codenames: Iterable[str]) -> frozenset[Right]:
    """Return the rights with these code names. Unknown names are ignored."""
    return frozenset(Right(name) for name in codenames if name in _CODENAMES)
