"""Project memberships, API tokens, the audit log, prices, alerts, comments and bookmarks."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.utils import timezone

from ingest.cells import AUDIT_LOG
from ingest.models import InCell, Project


def _next_id(sequence: str) -> models.Func:
    """Return the expression of an id that no other cell has, so that an address names a row by its id alone."""
    return models.Func(models.Value(sequence), function="nextval", output_field=models.BigIntegerField())


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


class AuditLog(models.Manager["AuditEntry"]):
    """Query the cell of the audit log."""

    def get_queryset(self) -> models.QuerySet[AuditEntry]:
        return super().get_queryset().filter(cell=AUDIT_LOG)


class AuditEntry(models.Model):
    """One entry of the append-only audit log. Each entry contains the hash of the previous one.

    The log is one chain over all projects, and in one cell.

    A trigger rejects changes. There are no foreign keys, so that entries outlive the users and projects they name.
    """

    class Outcome(models.TextChoices):
        OK = "ok"
        DENIED = "denied"
        NOT_FOUND = "not_found"

    pk = models.CompositePrimaryKey("cell", "position")
    cell = models.BigIntegerField(default=AUDIT_LOG, editable=False)
    position = models.BigIntegerField()
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
    objects = AuditLog()

    class Meta:
        managed = False  # a flush must not truncate it
        db_table = "viewer_auditentry"

    def __str__(self) -> str:
        return f"{self.position} {self.action} by {self.actor}"


class PriceOverride(models.Model):
    """The price of a model in one project, in US dollars per million tokens. It replaces the published price."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="price_overrides")
    model = models.CharField(max_length=200)  # as agents report it, in lower case
    input_price = models.DecimalField(max_digits=14, decimal_places=6)
    cached_price = models.DecimalField(max_digits=14, decimal_places=6, null=True)  # NULL: the input price
    cache_write_price = models.DecimalField(max_digits=14, decimal_places=6, null=True)  # NULL: the input price
    output_price = models.DecimalField(max_digits=14, decimal_places=6)
    updated_at = models.DateTimeField(default=timezone.now)
    updated_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "model"], name="one_price")]

    def __str__(self) -> str:
        return f"{self.model} in {self.project}"


class AlertRule(models.Model):
    """A condition on the sessions of a project, and where to send an alert when it is met."""

    class Kind(models.TextChoices):
        FACTS_LOST = "facts_lost", "Facts lost"
        FALLBACK = "fallback", "Summary fallbacks"
        OVERFLOW = "overflow", "Context overflows"
        NEAR_LIMIT = "near_limit", "Near the context limit"
        SILENCE = "silence", "No data received"

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="alert_rules")
    name = models.CharField(max_length=100)
    kind = models.TextField(choices=Kind.choices)
    threshold = models.PositiveIntegerField()  # the unit depends on the kind
    window_minutes = models.PositiveIntegerField(default=60)  # for kinds that count events
    cooldown_minutes = models.PositiveIntegerField(default=60)
    session_filter = models.CharField(max_length=200, blank=True)  # part of the session id
    model_filter = models.CharField(max_length=200, blank=True)  # part of the model name
    emails = models.JSONField(default=list)
    webhook_url = models.TextField(blank=True)  # encrypted, because addresses of chat webhooks are credentials
    webhook_host = models.TextField(blank=True)
    webhook_secret = models.TextField(blank=True)  # encrypted
    includes_content = models.BooleanField(default=False)
    is_enabled = models.BooleanField(default=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    last_fired_at = models.DateTimeField(null=True)
    suppressed_count = models.PositiveIntegerField(default=0)  # matches during the cool-down
    matches = models.JSONField(default=list)  # recent matches, bounded
    problem = models.TextField(blank=True)  # of the last evaluation

    class Meta:
        indexes = [models.Index(fields=["project", "kind"], name="alert_rule_project")]

    def __str__(self) -> str:
        return self.name


class AlertCursor(models.Model):
    """The position up to which a cell was evaluated. Its row is locked during an evaluation."""

    cell = models.BigIntegerField(primary_key=True)
    seq = models.BigIntegerField()
    evaluated_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"cell {self.cell} at {self.seq}"


class Alert(InCell):
    """A rule that fired, or a test of it. `viewer.alerts.rules.delete` deletes it with its rule."""

    pk = models.CompositePrimaryKey("cell", "id")
    id = models.BigIntegerField(db_default=_next_id("viewer_alert_id_seq"), editable=False)
    rule = models.ForeignKey(AlertRule, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False)
    fired_at = models.DateTimeField(default=timezone.now)
    is_test = models.BooleanField(default=False)
    title = models.TextField()
    figures = models.JSONField(default=dict)
    sessions = models.JSONField(default=list)  # keys and ids of the sessions that matched, worst first

    class Meta:
        indexes = [models.Index(fields=["cell", "-fired_at"], name="alert_newest")]

    def __str__(self) -> str:
        return self.title


class AlertDelivery(InCell):
    """One message of an alert to one recipient, with its attempts."""

    class Channel(models.TextChoices):
        WEBHOOK = "webhook"
        EMAIL = "email"

    class State(models.TextChoices):
        PENDING = "pending"
        SENT = "sent"
        FAILED = "failed"

    pk = models.CompositePrimaryKey("cell", "id")
    id = models.BigIntegerField(db_default=_next_id("viewer_alertdelivery_id_seq"), editable=False)
    alert_id = models.BigIntegerField()
    alert = models.ForeignObject(
        Alert,
        on_delete=models.CASCADE,
        from_fields=("cell", "alert_id"),
        to_fields=("cell", "id"),
        related_name="deliveries",
    )
    channel = models.TextField(choices=Channel.choices)
    recipient = models.TextField()  # the host of a webhook, or an e-mail address
    state = models.TextField(choices=State.choices, default=State.PENDING)
    attempts = models.PositiveIntegerField(default=0)
    next_attempt_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True)
    result = models.TextField(blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["cell", "alert_id"], name="delivery_alert"),
            models.Index(fields=["next_attempt_at"], condition=models.Q(state="pending"), name="delivery_pending"),
        ]

    def __str__(self) -> str:
        return f"{self.channel} to {self.recipient}"


class Comment(InCell):
    """A member's note on a session, one of its compactions or one of its spans."""

    pk = models.CompositePrimaryKey("cell", "id")
    id = models.BigIntegerField(db_default=_next_id("viewer_comment_id_seq"), editable=False)  # unique in all cells
    session_key = models.UUIDField()
    compaction = models.PositiveIntegerField(null=True)
    span = models.TextField(blank=True)  # `trace:span`
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+", db_constraint=False
    )
    text = models.TextField()
    created_at = models.DateTimeField(default=timezone.now)
    edited_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["cell", "session_key", "created_at"], name="comment_session")]

    def __str__(self) -> str:
        return f"comment {self.id}"


class Mention(InCell):
    """A member who was mentioned in a comment."""

    pk = models.CompositePrimaryKey("cell", "comment_id", "user_id")
    comment_id = models.BigIntegerField()
    comment = models.ForeignObject(
        Comment,
        on_delete=models.CASCADE,
        from_fields=("cell", "comment_id"),
        to_fields=("cell", "id"),
        related_name="mentions",
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mentions", db_constraint=False
    )
    created_at = models.DateTimeField(default=timezone.now)
    read_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["cell", "user", "-created_at"], name="mention_newest")]

    def __str__(self) -> str:
        return f"{self.user} in {self.comment}"


class Bookmark(InCell):
    """A session or compaction that a user marked for themselves."""

    pk = models.CompositePrimaryKey("cell", "user_id", "session_key", "compaction")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="bookmarks", db_constraint=False
    )
    session_key = models.UUIDField()
    compaction = models.PositiveIntegerField(default=0)  # 0: the session
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        indexes = [models.Index(fields=["cell", "session_key"], name="bookmark_session")]

    def __str__(self) -> str:
        return f"{self.session_key} of {self.user}"
