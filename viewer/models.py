"""Project memberships, API tokens and the audit log."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.utils import timezone

from ingest.models import Project


class Membership(models.Model):
    """A user in a project. Their groups and `role` determine their rights. See `viewer.accounts.access`."""

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
    """A token that lets a program read with the rights of its user, limited to `scopes`."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    project = models.ForeignKey(Project, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    label = models.CharField(max_length=100)
    scopes = models.JSONField(default=list)
    # A fast digest is enough for 256 random bits.
    digest = models.CharField(max_length=64, unique=True)
    hint = models.CharField(max_length=16)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.label} ({self.hint}…)"


class AuditEntry(models.Model):
    """One entry of the append-only audit log. Each entry contains the hash of the previous one.

    A trigger rejects changes. There are no foreign keys, so that entries outlive the users and projects they name.
    """

    class Outcome(models.TextChoices):
        OK = "ok"
        DENIED = "denied"
        NOT_FOUND = "not_found"

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
        managed = False  # a flush must not truncate it
        db_table = "viewer_auditentry"

    def __str__(self) -> str:
        return f"{self.position} {self.action} by {self.actor}"
