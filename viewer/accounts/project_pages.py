"""Project settings: retention, legal hold, reasons for payload views, and members.

A role that is given here applies to this project only. Every change is written to the audit log with its reason.
"""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.models import Group, User
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect

from ingest.cells import cells_of
from ingest.models import Project, RetentionMark, Transcript
from ingest.storage import retention_clock
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.accounts.roles import ROLES
from viewer.audit import log
from viewer.audit.log import Action
from viewer.models import Membership
from viewer.page_response import send_page

_MAX_DAYS = 36_500


@access.requires(Right.MANAGE, "GET", "HEAD")
def project_list(request: HttpRequest) -> HttpResponseBase:
    """List the projects that the user manages, or redirect to the only one."""
    managed = access.request_grant(request).projects(Right.MANAGE)
    counted = Project.objects.annotate(
        member_count=Count("memberships", distinct=True), rule_count=Count("redaction_rules", distinct=True)
    )
    projects = list(counted.filter(pk__in=managed).order_by("name"))
    if len(projects) == 1:
        return redirect("project-detail", projects[0].slug)
    return send_page(request, "accounts/project_list.html", {"projects": projects})


@access.requires(Right.MANAGE, "GET", "HEAD")
def project_detail(request: HttpRequest, slug: str) -> HttpResponseBase:
    project = get_project(request, slug)
    context = {
        "project": project,
        "memberships": project.memberships.select_related("user", "role")
        .prefetch_related("user__groups")
        .order_by("user__username"),
        "roles": list(ROLES),
        "rule_count": project.redaction_rules.count(),
        "retention_mark": RetentionMark.objects.filter(project=project).first(),
        "retention_problem": retention_clock.known_problem(),
        "transcript_count": Transcript.objects.filter(cell__in=cells_of(project.pk)).count(),
    }
    return send_page(request, "accounts/project_detail.html", context)


@access.requires(Right.MANAGE, "POST")
def project_keep(request: HttpRequest, slug: str) -> HttpResponse:
    """Set retention, legal hold, and whether payload views need a reason."""
    project = get_project(request, slug)
    reason = log.clean_input(request.POST.get("reason", ""))
    days = request.POST.get("retention_days", "").strip()
    if not reason:
        messages.error(request, "Enter a reason. It is recorded in the audit log.")
        return redirect("project-detail", slug)
    if days and not _is_valid_retention(days):
        messages.error(request, f"Enter a number of days from 1 to {_MAX_DAYS:,}, or leave it empty to keep forever.")
        return redirect("project-detail", slug)
    before = _settings(project)
    project.retention_days = int(days) if days else None
    project.legal_hold = request.POST.get("legal_hold") == "on"
    project.requires_view_reason = request.POST.get("requires_view_reason") == "on"
    project.save(update_fields=["retention_days", "legal_hold", "requires_view_reason"])
    log.record(
        request,
        Action.PROJECT_CHANGE,
        project_id=project.pk,
        target=f"project {project.slug}",
        reason=reason,
        before=before,
        after=_settings(project),
    )
    messages.success(request, "Changes saved.")
    return redirect("project-detail", slug)


@access.requires(Right.MANAGE, "POST")
def member_add(request: HttpRequest, slug: str) -> HttpResponse:
    """Add a member, or change the role of one."""
    project = get_project(request, slug)
    user = User.objects.filter(username=request.POST.get("username", "").strip(), is_active=True).first()
    role_name = request.POST.get("role", "")
    if user is None or (role_name and role_name not in ROLES):
        messages.error(request, "No active user has this username.")
        return redirect("project-detail", slug)
    role = Group.objects.filter(name=role_name).first() if role_name else None
    Membership.objects.update_or_create(user=user, project=project, defaults={"role": role})
    target = f"{user.get_username()} in {project.slug}"
    log.record(request, Action.USER_CHANGE, project_id=project.pk, target=target, verb="member", role=role_name)
    messages.success(request, f"{user.get_username()} is a member of {project.name}.")
    return redirect("project-detail", slug)


@access.requires(Right.MANAGE, "POST")
def member_remove(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    project = get_project(request, slug)
    membership = project.memberships.select_related("user").filter(pk=pk).first()
    if membership is None:
        raise Http404
    membership.delete()
    username = membership.user.get_username()
    log.record(
        request, Action.USER_CHANGE, project_id=project.pk, target=f"{username} in {project.slug}", verb="removed"
    )
    messages.success(request, f"Removed {username} from {project.name}.")
    if membership.user_id == request.user.pk:
        return redirect("session-list")
    return redirect("project-detail", slug)


def get_project(request: HttpRequest, slug: str) -> Project:
    """Return a project that the user manages."""
    grant = access.request_grant(request)
    project = Project.objects.filter(slug=slug, pk__in=list(grant.rights)).first()
    if project is None:
        raise Http404
    grant.require(Right.MANAGE, project.pk)
    return project


def _settings(project: Project) -> dict[str, int | bool | None]:
    names = ("retention_days", "legal_hold", "requires_view_reason")
    return {name: getattr(project, name) for name in names}


def _is_valid_retention(days: str) -> bool:
    return days.isascii() and days.isdigit() and len(days) < 6 and 1 <= int(days) <= _MAX_DAYS
