"""What the administrators of a project decide: how long it keeps transcripts and sessions, and who is in it.

Roles given here count in this project alone. Every change is a line of the audit log, with its reason.
"""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.models import Group, User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from ingest.models import Project, Transcript
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.accounts.roles import ROLES
from viewer.audit import log
from viewer.audit.log import Action
from viewer.models import Membership

_MAX_DAYS = 36_500


@access.needs(Right.MANAGE, "GET", "HEAD")
def project_list(request: HttpRequest) -> HttpResponse:
    """The projects one manages; with one alone, that one."""
    projects = list(Project.objects.filter(pk__in=access.grant(request).projects(Right.MANAGE)).order_by("name"))
    if len(projects) == 1:
        return redirect("project-detail", projects[0].slug)
    return render(request, "accounts/project_list.html", {"projects": projects})


@access.needs(Right.MANAGE, "GET", "HEAD")
def project_detail(request: HttpRequest, slug: str) -> HttpResponse:
    project = _project(request, slug)
    context = {
        "project": project,
        "memberships": project.memberships.select_related("user", "role").order_by("user__username"),
        "roles": list(ROLES),
        "transcript_count": Transcript.objects.filter(project_id=project.pk).count(),
    }
    return render(request, "accounts/project_detail.html", context)


@access.needs(Right.MANAGE, "POST")
def project_keep(request: HttpRequest, slug: str) -> HttpResponse:
    """Set retention and legal hold."""
    project = _project(request, slug)
    reason = log.clean(request.POST.get("reason", "").strip())
    text = request.POST.get("retention_days", "").strip()
    if not reason:
        messages.error(request, "Say why: the audit log keeps the reason.")
        return redirect("project-detail", slug)
    if text and not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= _MAX_DAYS):
        messages.error(request, f"Days are a whole number from 1 to {_MAX_DAYS:,}, or nothing to keep for ever.")
        return redirect("project-detail", slug)
    before = {"retention_days": project.retention_days, "legal_hold": project.legal_hold}
    project.retention_days = int(text) if text else None
    project.legal_hold = request.POST.get("legal_hold") == "on"
    project.save(update_fields=["retention_days", "legal_hold"])
    after = {"retention_days": project.retention_days, "legal_hold": project.legal_hold}
    target = f"project {project.slug}"
    log.record(
        request, Action.PROJECT_CHANGE, project_id=project.pk, target=target, reason=reason, before=before, after=after
    )
    messages.success(request, "Saved.")
    return redirect("project-detail", slug)


@access.needs(Right.MANAGE, "POST")
def member_add(request: HttpRequest, slug: str) -> HttpResponse:
    """Bring somebody in, or change the role they have here."""
    project = _project(request, slug)
    user = User.objects.filter(username=request.POST.get("username", "").strip(), is_active=True).first()
    name = request.POST.get("role", "")
    if user is None or (name and name not in ROLES):
        messages.error(request, "There is no such person.")
        return redirect("project-detail", slug)
    role = Group.objects.filter(name=name).first() if name else None
    Membership.objects.update_or_create(user=user, project=project, defaults={"role": role})
    target = f"{user.get_username()} in {project.slug}"
    log.record(request, Action.USER_CHANGE, project_id=project.pk, target=target, verb="member", role=name)
    messages.success(request, f"{user.get_username()} is in {project.name}.")
    return redirect("project-detail", slug)


@access.needs(Right.MANAGE, "POST")
def member_remove(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    project = _project(request, slug)
    membership = project.memberships.select_related("user").filter(pk=pk).first()
    if membership is None:
        raise Http404
    membership.delete()
    target = f"{membership.user.get_username()} in {project.slug}"
    log.record(request, Action.USER_CHANGE, project_id=project.pk, target=target, verb="removed")
    messages.success(request, f"{membership.user.get_username()} is no longer in {project.name}.")
    if membership.user_id == request.user.pk:
        return redirect("session-list")
    return redirect("project-detail", slug)


def _project(request: HttpRequest, slug: str) -> Project:
    held = access.grant(request)
    project = Project.objects.filter(slug=slug, pk__in=list(held.rights)).first()
    if project is None:
        raise Http404
    held.require(Right.MANAGE, project.pk)
    return project
