"""The parts of the demo that no agent sends: a second project, a comment, a bookmark and an alert rule."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import django
from django.contrib.auth import get_user_model
from django.utils import timezone

if TYPE_CHECKING:
    from ingest.models import Project

SUPPORT_DESK = "support-desk"
COMMENTED_SESSION = "coding-MIG-9"


def create_support_desk() -> str:
    """Create the second project with the same people, and return an ingest key for it.

    The first project gets an alert rule, which fires when the sessions that follow lose facts.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ariadne.settings")
    django.setup()
    from ingest.http import keys  # noqa: PLC0415 - models need the settings
    from ingest.models import Project  # noqa: PLC0415
    from viewer.models import Membership  # noqa: PLC0415

    _create_alert_rule(Project.objects.get(slug="default"))
    project, _ = Project.objects.get_or_create(slug=SUPPORT_DESK, defaults={"name": "Support desk"})
    for user in get_user_model().objects.all():
        Membership.objects.get_or_create(user=user, project=project)
    return keys.create(project, label="demo")


def annotate() -> None:
    """Add a comment and a bookmark to the first project, and evaluate its alert rule now."""
    from ingest.cells import cells_of  # noqa: PLC0415
    from ingest.models import Project, Session  # noqa: PLC0415
    from viewer.alerts import evaluation  # noqa: PLC0415
    from viewer.models import Bookmark, Comment, Mention  # noqa: PLC0415

    project = Project.objects.get(slug="default")
    people = {user.username: user for user in get_user_model().objects.all()}
    session = Session.objects.filter(cell__in=cells_of(project.pk), session_id=COMMENTED_SESSION).first()
    if session is not None and {"developer", "operator"} <= set(people):
        target: dict[str, Any] = {"cell": session.cell, "session_key": session.session_key}
        comment = Comment.objects.create(
            **target,
            author=people["developer"],
            text="@operator The model refused one summary here. The retry kept the rule about locks, so nothing to do.",
        )
        Mention.objects.create(cell=comment.cell, comment_id=comment.id, user=people["operator"])
        Bookmark.objects.get_or_create(**target, user=people["operator"], compaction=0)
    evaluation.evaluate_project(project.pk, now=timezone.now())


def _create_alert_rule(project: Project) -> None:
    from viewer.alerts import evaluation  # noqa: PLC0415
    from viewer.models import AlertRule  # noqa: PLC0415

    owner = get_user_model().objects.filter(username="admin").first()
    AlertRule.objects.get_or_create(
        project=project,
        name="Many facts lost",
        defaults={"kind": AlertRule.Kind.FACTS_LOST, "threshold": 20, "created_by": owner},
    )
    evaluation.start_project(project.pk)
