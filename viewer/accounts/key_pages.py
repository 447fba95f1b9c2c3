"""Ingest keys of projects and API tokens of people: make, replace, revoke. What is secret is shown once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from ingest.http import keys
from ingest.models import IngestKey, Project
from viewer.accounts import access, api_tokens
from viewer.accounts.access import Grant, Right
from viewer.audit import log
from viewer.audit.log import Action
from viewer.models import ApiToken

ROTATION_OVERLAP = timedelta(hours=24)
_LABEL_MAX_CHARS = 100
_DAYS = (7, 30, 90, 365)


@access.needs(Right.KEYS, "GET", "HEAD", "POST")
def key_list(request: HttpRequest) -> HttpResponse:
    held = access.grant(request)
    shown: dict[str, Any] = {}
    if request.method == "POST":
        project = _project(request, held.projects(Right.KEYS))
        label = _label(request)
        if project is None or not label:
            messages.error(request, "A key needs a name and a project.")
            return redirect("key-list")
        shown = {"secret": keys.create(project, label=label, created_by=_person(request)), "label": label}
        log.record(request, Action.KEY_CREATE, project_id=project.pk, target=label, hint=shown["secret"][:8])
    return _show_keys(request, held, shown)


@access.needs(Right.KEYS, "POST")
def key_rotate(request: HttpRequest, pk: int) -> HttpResponse:
    """A new key at once; the old one counts for a day longer."""
    held = access.grant(request)
    key = _key(request, held, pk)
    shown = {"secret": keys.rotate(key, overlap=ROTATION_OVERLAP, created_by=_person(request)), "label": key.label}
    log.record(request, Action.KEY_ROTATE, project_id=key.project_id, target=str(key), hint=shown["secret"][:8])
    return _show_keys(request, held, shown)


@access.needs(Right.KEYS, "POST")
def key_revoke(request: HttpRequest, pk: int) -> HttpResponse:
    key = _key(request, access.grant(request), pk)
    keys.revoke(key)
    log.record(request, Action.KEY_REVOKE, project_id=key.project_id, target=str(key))
    messages.success(request, f"{key} is revoked; it is refused everywhere within seconds.")
    return redirect("key-list")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def token_list(request: HttpRequest) -> HttpResponse:
    held = access.grant(request)
    allowed = [right for right in api_tokens.SCOPES if held.projects(right)]
    shown: dict[str, Any] = {}
    if request.method == "POST":
        label = _label(request)
        scopes = [right for right in allowed if right.value in request.POST.getlist("scopes")]
        project = _project(request, frozenset(held.rights))
        if not label or not scopes or (project is None and request.POST.get("project")):
            messages.error(request, "A token needs a name and something it may read.")
            return redirect("token-list")
        days = request.POST.get("days", "")
        expires_at = timezone.now() + timedelta(days=int(days)) if days in {str(d) for d in _DAYS} else None
        token, text = api_tokens.create(
            _person(request), label=label, scopes=scopes, project=project, expires_at=expires_at
        )
        shown = {"secret": text, "label": label}
        log.record(
            request,
            Action.TOKEN_CREATE,
            project_id=project.pk if project else None,
            target=str(token),
            scopes=token.scopes,
        )
    context = {
        "tokens": ApiToken.objects.filter(user=_person(request)).select_related("project").order_by("-created_at"),
        "scopes": [(right.value, _SAYS[right]) for right in allowed],
        "projects": Project.objects.filter(pk__in=list(held.rights)).order_by("name"),
        "days": _DAYS,
        "now": timezone.now(),
        "shown": shown,
    }
    return _no_store(render(request, "accounts/token_list.html", context))


@login_required
@require_POST
def token_revoke(request: HttpRequest, pk: int) -> HttpResponse:
    token = ApiToken.objects.filter(pk=pk, user=_person(request)).first()
    if token is None:
        raise Http404
    api_tokens.revoke(token)
    log.record(request, Action.TOKEN_REVOKE, project_id=token.project_id, target=str(token))
    messages.success(request, f"{token} is revoked.")
    return redirect("token-list")


_SAYS = {
    Right.SESSIONS: "Sessions, spans and summaries",
    Right.PAYLOAD: "Texts that agents sent",
    Right.TAIL: "Live events (compactctl tail)",
    Right.TRANSCRIPTS: "Transcripts",
    Right.AUDIT: "The audit log",
}


def _show_keys(request: HttpRequest, held: Grant, shown: dict[str, Any]) -> HttpResponse:
    context = {
        "keys": _visible_keys(request, held).select_related("project", "created_by").order_by("-created_at"),
        "projects": Project.objects.filter(pk__in=held.projects(Right.KEYS)).order_by("name"),
        "now": timezone.now(),
        "shown": shown,
        "overlap_hours": int(ROTATION_OVERLAP.total_seconds() // 3600),
    }
    return _no_store(render(request, "accounts/key_list.html", context))


def _visible_keys(request: HttpRequest, held: Grant) -> Any:
    """One's own keys, and all keys of the projects one manages."""
    own = IngestKey.objects.filter(project_id__in=held.projects(Right.KEYS), created_by_id=request.user.pk)
    return own | IngestKey.objects.filter(project_id__in=held.projects(Right.MANAGE))


def _key(request: HttpRequest, held: Grant, pk: int) -> IngestKey:
    key: IngestKey | None = _visible_keys(request, held).select_related("project").filter(pk=pk).first()
    if key is None:
        raise Http404
    return key


def _project(request: HttpRequest, allowed: frozenset[int]) -> Project | None:
    return Project.objects.filter(slug=request.POST.get("project", ""), pk__in=allowed).first()


def _label(request: HttpRequest) -> str:
    return log.clean(request.POST.get("label", "").strip())[:_LABEL_MAX_CHARS]


def _person(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    return request.user


def _no_store(response: HttpResponse) -> HttpResponse:
    response["Cache-Control"] = "private, no-store"
    return response
