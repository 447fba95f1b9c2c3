"""Who may read what."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models

from ingest.models import Project


class Membership(models.Model):
    """A person in a project. What they may do there is their groups' doing, and `role`'s here alone: see `access`."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    role = models.ForeignKey(Group, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "project"], name="one_membership")]
        permissions = [
            ("view_session", "See sessions, spans and summaries"),
            ("view_payload", "See the texts that agents sent"),
            ("view_tail", "Follow live events"),
            ("manage_own_keys", "Make and revoke one's own ingest keys"),
            ("view_transcript", "See and download transcripts"),
            ("view_audit", "See the audit log"),
            ("manage_project", "Manage keys, people, retention and legal hold"),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.project}"
