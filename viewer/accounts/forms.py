"""Form fields that the key and token pages share."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponseBase

from ingest.models import Project
from viewer.audit import log

_LABEL_MAX_CHARS = 100


def posted_project(request: HttpRequest, allowed: frozenset[int]) -> Project | None:
    return Project.objects.filter(slug=request.POST.get("project", ""), pk__in=allowed).first()


def posted_label(request: HttpRequest) -> str:
    return log.clean_input(request.POST.get("label", ""))[:_LABEL_MAX_CHARS]


def current_user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    return request.user


def no_store(response: HttpResponseBase) -> HttpResponseBase:
    """Keep a page that may show a secret out of every cache."""
    response["Cache-Control"] = "private, no-store"
    return response
