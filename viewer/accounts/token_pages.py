"""The page of a user's API tokens: create and revoke. A new token is shown once."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from ingest.models import Project
from viewer.accounts import access, api_tokens
from viewer.accounts.access import Right
from viewer.accounts.forms import current_user, no_store, posted_label, posted_project
from viewer.audit import log
from viewer.audit.log import Action
from viewer.models import ApiToken
from viewer.page_response import send_page

_LIFETIMES_DAYS = (7, 30, 90, 365)
_SCOPE_LABELS = {
    Right.SESSIONS: "Sessions, spans and summaries",
    Right.PAYLOAD: "Payloads",
    Right.TAIL: "Live events (compactctl tail)",
    Right.TRANSCRIPTS: "Transcripts",
    Right.AUDIT: "Audit log",
}


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def token_list(request: HttpRequest) -> HttpResponseBase:
    if request.method != "POST":
        return _render(request)
    label = posted_label(request)
    scopes = [right for right in _available_scopes(request) if right.value in request.POST.getlist("scopes")]
    project = posted_project(request, frozenset(access.request_grant(request).rights))
    if not label or not scopes or (project is None and request.POST.get("project")):
        messages.error(request, "Enter a name and select at least one scope.")
        return redirect("token-list")
    token, secret = api_tokens.create(
        current_user(request), label=label, scopes=scopes, project=project, expires_at=_posted_expiry(request)
    )
    project_id = project.pk if project else None
    log.record(request, Action.TOKEN_CREATE, project_id=project_id, target=str(token), scopes=token.scopes)
    return _render(request, {"text": secret, "label": label})


@login_required
@require_POST
def token_revoke(request: HttpRequest, pk: int) -> HttpResponse:
    token = ApiToken.objects.filter(pk=pk, user=current_user(request)).first()
    if token is None:
        raise Http404
    api_tokens.revoke(token)
    log.record(request, Action.TOKEN_REVOKE, project_id=token.project_id, target=str(token))
    messages.success(request, f"Revoked {token}.")
    return redirect("token-list")


def _render(request: HttpRequest, new_secret: dict[str, str] | None = None) -> HttpResponseBase:
    grant = access.request_grant(request)
    tokens = ApiToken.objects.filter(user=current_user(request)).select_related("project").order_by("-created_at")
    context = {
        "tokens": [(token, [_SCOPE_LABELS[Right(scope)] for scope in token.scopes]) for token in tokens],
        "scopes": [(right.value, _SCOPE_LABELS[right]) for right in _available_scopes(request)],
        "projects": Project.objects.filter(pk__in=list(grant.rights)).order_by("name"),
        "days": _LIFETIMES_DAYS,
        "now": timezone.now(),
        "new_secret": new_secret,
    }
    return no_store(send_page(request, "accounts/token_list.html", context))


def _available_scopes(request: HttpRequest) -> list[Right]:
    grant = access.request_grant(request)
    return [right for right in api_tokens.SCOPES if grant.projects(right)]


def _posted_expiry(request: HttpRequest) -> datetime | None:
    days = request.POST.get("days", "")
    return timezone.now() + timedelta(days=int(days)) if days in {str(d) for d in _LIFETIMES_DAYS} else None
