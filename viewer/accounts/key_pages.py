"""The page of ingest keys: create, rotate and revoke. A new key is shown once."""

from __future__ import annotations

from datetime import timedelta

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone

from ingest.http import keys
from ingest.models import IngestKey, Project
from viewer.accounts import access
from viewer.accounts.access import Grant, Right
from viewer.accounts.forms import current_user, no_store, posted_label, posted_project
from viewer.accounts.snippets import connection
from viewer.audit import log
from viewer.audit.log import Action
from viewer.page_response import send_page
from viewer.sessions.queries import last_seq

ROTATION_OVERLAP = timedelta(hours=24)


@access.requires(Right.KEYS, "GET", "HEAD", "POST")
def key_list(request: HttpRequest) -> HttpResponseBase:
    if request.method != "POST":
        return _render(request)
    project = posted_project(request, access.request_grant(request).projects(Right.KEYS))
    label = posted_label(request)
    if project is None or not label:
        messages.error(request, "Enter a name and choose a project.")
        return redirect("key-list")
    secret = keys.create(project, label=label, created_by=current_user(request))
    log.record(request, Action.KEY_CREATE, project_id=project.pk, target=label, hint=secret[:8])
    return _render(request, secret, project)


@access.requires(Right.KEYS, "POST")
def key_rotate(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Create a replacement key. The old key keeps working for a day."""
    key = _get_key(request, pk)
    secret = keys.rotate(key, overlap=ROTATION_OVERLAP, created_by=current_user(request))
    log.record(request, Action.KEY_ROTATE, project_id=key.project_id, target=str(key), hint=secret[:8])
    return _render(request, secret, key.project)


@access.requires(Right.KEYS, "POST")
def key_revoke(request: HttpRequest, pk: int) -> HttpResponse:
    key = _get_key(request, pk)
    keys.revoke(key)
    log.record(request, Action.KEY_REVOKE, project_id=key.project_id, target=str(key))
    messages.success(request, f"Revoked {key}. All servers reject it within seconds.")
    return redirect("key-list")


def _render(request: HttpRequest, secret: str = "", project: Project | None = None) -> HttpResponseBase:
    """Render the page, after a key was created with the key and the snippets that use it."""
    grant = access.request_grant(request)
    context = {
        "keys": _visible_keys(request, grant).select_related("project", "created_by").order_by("-created_at"),
        "projects": Project.objects.filter(pk__in=grant.projects(Right.KEYS)).order_by("name"),
        "now": timezone.now(),
        "connection": connection(request, secret) if secret else None,
        "project": project,
        "last_seq": last_seq(project.pk) if project else 0,
        "overlap_hours": int(ROTATION_OVERLAP.total_seconds() // 3600),
    }
    return no_store(send_page(request, "accounts/key_list.html", context))


def _visible_keys(request: HttpRequest, grant: Grant) -> QuerySet[IngestKey]:
    """Return the user's own keys, and all keys of the projects that they manage."""
    own = IngestKey.objects.filter(project_id__in=grant.projects(Right.KEYS), created_by_id=request.user.pk)
    return own | IngestKey.objects.filter(project_id__in=grant.projects(Right.MANAGE))


def _get_key(request: HttpRequest, pk: int) -> IngestKey:
    visible = _visible_keys(request, access.request_grant(request))
    key = visible.select_related("project").filter(pk=pk).first()
    if key is None:
        raise Http404
    return key
