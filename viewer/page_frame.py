"""What every page shows around its content: where one may go, and in which project one is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from ingest.models import IngestKey, Project
from viewer.accounts import access
from viewer.accounts.access import Right


@dataclass(frozen=True, slots=True)
class Chrome:
    projects: list[Project]
    project: Project | None
    may_tail: bool
    may_transcripts: bool
    may_audit: bool
    may_keys: bool
    may_manage: bool


def current_project(request: HttpRequest, right: Right = Right.SESSIONS) -> Project | None:
    """The project in the address, else the one looked at last, else the first."""
    allowed = access.grant(request).projects(right)
    projects = list(Project.objects.filter(pk__in=allowed).order_by("name"))
    named = request.GET.get("project") or request.session.get("project")
    chosen = next((project for project in projects if project.slug == named), None) or next(iter(projects), None)
    if chosen is not None and request.GET.get("project") == chosen.slug:
        request.session["project"] = chosen.slug
    return chosen


def first_event(request: HttpRequest, project_id: int) -> dict[str, str]:
    """What a person needs to send a first event: the address of this server and which key to use."""
    key = IngestKey.objects.filter(project_id=project_id, revoked_at=None).order_by("-created_at").first()
    return {
        "server": request.build_absolute_uri("/").rstrip("/"),
        "key_hint": f"{key.hint}…" if key else "",
        "key_label": key.label if key else "",
    }


def context(request: HttpRequest) -> dict[str, Any]:
    """A template context processor; costs nothing on pages that do not extend the base."""

    def load() -> Chrome:
        grant = access.grant(request)
        return Chrome(
            projects=list(Project.objects.filter(pk__in=grant.projects(Right.SESSIONS)).order_by("name")),
            project=current_project(request),
            may_tail=bool(grant.projects(Right.TAIL)),
            may_transcripts=bool(grant.projects(Right.TRANSCRIPTS)),
            may_audit=bool(grant.projects(Right.AUDIT)),
            may_keys=bool(grant.projects(Right.KEYS)),
            may_manage=bool(grant.projects(Right.MANAGE)),
        )

    return {"chrome": SimpleLazyObject(load)}
