"""People in projects, the tokens they made, and the log of what they did."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.utils import timezone

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


class ApiToken(models.Model):
    """A person's right to read from a program: never more than the person's own, and only what `scopes` name."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    project = models.ForeignKey(Project, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    label = models.CharField(max_length=100)
    scopes = models.JSONField(default=list)
    # 256 random bits need no slow digest.
    digest = models.CharField(max_length=64, unique=True)
    hint = models.CharField(max_length=16)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.label} ({self.hint}…)"


class AuditEntry(models.Model):
    """One line of the audit log. Append-only, by a trigger; each line carries the hash of the one before it.

    No foreign keys: what was done stays written when the person or the project is gone.
    """

    class Outcome(models.TextChoices):
        OK = "ok"
        DENIED = "denied"

    position = models.BigIntegerField(primary_key=True)
    at = models.DateTimeField()
    actor_id = models.IntegerField(null=True)
    actor = models.TextField()
    address = models.TextField()
    agent = models.TextField()
    action = models.TextField()
    outcome = models.TextField(choices=Outcome.choices)
    project_id = models.IntegerField(null=True)
    target = models.TextField()
    reason = models.TextField()
    detail = models.JSONField()
    previous = models.TextField()
    hash = models.TextField()

    class Meta:
        managed = False  # flushing must not empty it
        db_table = "viewer_auditentry"

    def __str__(self) -> str:
        return f"{self.position} {self.action} by {self.actor}"
