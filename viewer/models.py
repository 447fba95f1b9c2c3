"""Who may read what."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from ingest.models import Project


class Membership(models.Model):
    """A person in a project. What they may do there is their groups' doing: see `access`."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "project"], name="one_membership")]
        permissions = [
            ("view_session", "See sessions, spans and summaries"),
            ("view_payload", "See the texts that agents sent"),
            ("view_tail", "Follow live events"),
            ("manage_own_keys", "Make and revoke one's own ingest keys"),
            ("view_transcript", "See and download transcripts"),
            ("view_audit", "See the audit log"),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.project}"
