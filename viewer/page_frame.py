"""The frame around every page: navigation and the current project."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from ingest.models import Project
from viewer.accounts import access
from viewer.accounts.access import Right
from viewer.comments.queries import unread_count


@dataclass(frozen=True, slots=True)
class PageFrame:
    projects: list[Project]
    project: Project | None
    may_tail: bool
    may_transcripts: bool
    may_audit: bool
    may_keys: bool
    may_manage: bool
    unread_mentions: int


def _projects(request: HttpRequest, right: Right) -> list[Project]:
    """Return the projects in which the user has a right, in the order of their names. One query per request."""
    grant = access.request_grant(request)
    projects: list[Project] | None = getattr(request, "_projects", None)
    if projects is None:
        projects = list(Project.objects.filter(pk__in=grant.rights).order_by("name"))
        request._projects = projects  # type: ignore[attr-defined]
    allowed = grant.projects(right)
    return [project for project in projects if project.pk in allowed]


def current_project(request: HttpRequest, right: Right = Right.SESSIONS) -> Project | None:
    """Return the project in the address, else the last one the user viewed, else the first."""
    projects = _projects(request, right)
    slug = request.GET.get("project") or request.session.get("project")
    current = next((project for project in projects if project.slug == slug), None) or next(iter(projects), None)
    if current is not None and request.GET.get("project") == current.slug:
        request.session["project"] = current.slug
    return current


def context(request: HttpRequest) -> dict[str, Any]:
    """Template context processor. The queries run only if a template uses the frame."""

    def load() -> PageFrame:
        grant = access.request_grant(request)
        return PageFrame(
            projects=_projects(request, Right.SESSIONS),
            project=current_project(request),
            may_tail=bool(grant.projects(Right.TAIL)),
            may_transcripts=bool(grant.projects(Right.TRANSCRIPTS)),
            may_audit=bool(grant.projects(Right.AUDIT)),
            may_keys=bool(grant.projects(Right.KEYS)),
            may_manage=bool(grant.projects(Right.MANAGE)),
            unread_mentions=unread_count(grant),
        )

    return {"frame": SimpleLazyObject(load)}
