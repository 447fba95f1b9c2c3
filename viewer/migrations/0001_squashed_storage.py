"""Create the tables of the viewer of version 0.2.0.

A database of an earlier version runs the migrations that this one replaces.
"""

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

AUDIT_LOG = """
CREATE TABLE viewer_auditentry (
    cell bigint NOT NULL DEFAULT 0 CHECK (cell = 0),
    position bigint NOT NULL CHECK (position >= 0),
    at timestamptz NOT NULL,
    actor_id integer,
    actor text NOT NULL,
    address text NOT NULL,
    agent text NOT NULL,
    action text NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('ok', 'denied', 'not_found')),
    project_id integer,
    target text NOT NULL,
    reason text NOT NULL,
    detail jsonb NOT NULL,
    previous text NOT NULL,
    hash text NOT NULL,
    PRIMARY KEY (cell, position)
)
"""
TABLES = [
    AUDIT_LOG,
    "CREATE INDEX auditentry_project ON viewer_auditentry (project_id, position DESC)",
    "CREATE INDEX auditentry_actor ON viewer_auditentry (actor_id, position DESC)",
    "CREATE INDEX auditentry_session ON viewer_auditentry ((detail ->> 'session'), position DESC)",
    "CREATE INDEX auditentry_session_key ON viewer_auditentry ((detail ->> 'session_key'), position DESC)",
    "CREATE INDEX auditentry_at ON viewer_auditentry (at)",
    "CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON viewer_auditentry"
    " FOR EACH STATEMENT EXECUTE FUNCTION ariadne_append_only()",
    # The trigger stops all but the owner of the table. Without these rights, a dropped trigger does not help them.
    "REVOKE UPDATE, DELETE, TRUNCATE ON viewer_auditentry, ingest_chainlink FROM PUBLIC, CURRENT_USER",
]
# An address names a comment or an alert by its id alone, so all cells share a sequence.
WITH_IDS = ("viewer_comment", "viewer_alert", "viewer_alertdelivery")
SEQUENCES = [f"CREATE SEQUENCE {table}_id_seq" for table in WITH_IDS]
OWNED = [f"ALTER SEQUENCE {table}_id_seq OWNED BY {table}.id" for table in WITH_IDS]


class Migration(migrations.Migration):
    initial = True
    replaces = [
        ("viewer", "0001_initial"),
        ("viewer", "0002_roles"),
        ("viewer", "0003_audit"),
        ("viewer", "0004_audit_session"),
        ("viewer", "0005_operations"),
        ("viewer", "0006_compaction_parts"),
        ("viewer", "0007_drop_compaction_parts"),
        ("viewer", "0008_cells_of_comments"),
        ("viewer", "0009_cells_of_alerts"),
        ("viewer", "0010_cell_of_the_audit_log"),
        ("viewer", "0011_cells_of_alert_cursors"),
    ]

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("ingest", "0001_squashed_storage"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL(TABLES),
        migrations.RunSQL(SEQUENCES),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cell", "position", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("cell", models.BigIntegerField(default=0, editable=False)),
                ("position", models.BigIntegerField()),
                ("at", models.DateTimeField()),
                ("actor_id", models.IntegerField(null=True)),
                ("actor", models.TextField()),
                ("address", models.TextField()),
                ("agent", models.TextField()),
                ("action", models.TextField()),
                ("outcome", models.TextField(choices=[("ok", "Ok"), ("denied", "Denied"), ("not_found", "Not Found")])),
                ("project_id", models.IntegerField(null=True)),
                ("target", models.TextField()),
                ("reason", models.TextField()),
                ("detail", models.JSONField()),
                ("previous", models.TextField()),
                ("hash", models.TextField()),
            ],
            options={
                "db_table": "viewer_auditentry",
                "managed": False,
            },
        ),
        migrations.CreateModel(
            name="AlertCursor",
            fields=[
                ("cell", models.BigIntegerField(primary_key=True, serialize=False)),
                ("seq", models.BigIntegerField()),
                ("evaluated_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
        migrations.CreateModel(
            name="AlertRule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100)),
                (
                    "kind",
                    models.TextField(
                        choices=[
                            ("facts_lost", "Facts lost"),
                            ("fallback", "Summary fallbacks"),
                            ("overflow", "Context overflows"),
                            ("near_limit", "Near the context limit"),
                            ("silence", "No data received"),
                        ]
                    ),
                ),
                ("threshold", models.PositiveIntegerField()),
                ("window_minutes", models.PositiveIntegerField(default=60)),
                ("cooldown_minutes", models.PositiveIntegerField(default=60)),
                ("session_filter", models.CharField(blank=True, max_length=200)),
                ("model_filter", models.CharField(blank=True, max_length=200)),
                ("emails", models.JSONField(default=list)),
                ("webhook_url", models.TextField(blank=True)),
                ("webhook_host", models.TextField(blank=True)),
                ("webhook_secret", models.TextField(blank=True)),
                ("includes_content", models.BooleanField(default=False)),
                ("is_enabled", models.BooleanField(default=True)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("last_fired_at", models.DateTimeField(null=True)),
                ("suppressed_count", models.PositiveIntegerField(default=0)),
                ("matches", models.JSONField(default=list)),
                ("problem", models.TextField(blank=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="alert_rules", to="ingest.project"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Alert",
            fields=[
                ("cell", models.BigIntegerField()),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cell", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "id",
                    models.BigIntegerField(
                        db_default=models.Func(
                            models.Value("viewer_alert_id_seq"),
                            function="nextval",
                            output_field=models.BigIntegerField(),
                        ),
                        editable=False,
                    ),
                ),
                ("fired_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("is_test", models.BooleanField(default=False)),
                ("title", models.TextField()),
                ("figures", models.JSONField(default=dict)),
                ("sessions", models.JSONField(default=list)),
                (
                    "rule",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="viewer.alertrule",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("label", models.CharField(max_length=100)),
                ("scopes", models.JSONField(default=list)),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("hint", models.CharField(max_length=16)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                (
                    "project",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="ingest.project",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="api_tokens",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Bookmark",
            fields=[
                ("cell", models.BigIntegerField()),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cell",
                        "user_id",
                        "session_key",
                        "compaction",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("session_key", models.UUIDField()),
                ("compaction", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "user",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="bookmarks",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Comment",
            fields=[
                ("cell", models.BigIntegerField()),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cell", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "id",
                    models.BigIntegerField(
                        db_default=models.Func(
                            models.Value("viewer_comment_id_seq"),
                            function="nextval",
                            output_field=models.BigIntegerField(),
                        ),
                        editable=False,
                    ),
                ),
                ("session_key", models.UUIDField()),
                ("compaction", models.PositiveIntegerField(null=True)),
                ("span", models.TextField(blank=True)),
                ("text", models.TextField()),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("edited_at", models.DateTimeField(null=True)),
                (
                    "author",
                    models.ForeignKey(
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="memberships", to="ingest.project"
                    ),
                ),
                (
                    "role",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="auth.group",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "permissions": [
                    ("view_session", "See sessions, spans and summaries"),
                    ("view_payload", "See the texts that agents sent"),
                    ("view_tail", "Follow live events"),
                    ("manage_own_keys", "Make and revoke one's own ingest keys"),
                    ("view_transcript", "See and download transcripts"),
                    ("view_audit", "See the audit log"),
                    ("manage_project", "Manage keys, people, retention and legal hold"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Mention",
            fields=[
                ("cell", models.BigIntegerField()),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cell", "comment_id", "user_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("comment_id", models.BigIntegerField()),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("read_at", models.DateTimeField(null=True)),
                (
                    "comment",
                    models.ForeignObject(
                        from_fields=("cell", "comment_id"),
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="mentions",
                        to="viewer.comment",
                        to_fields=("cell", "id"),
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="mentions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="PriceOverride",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("model", models.CharField(max_length=200)),
                ("input_price", models.DecimalField(decimal_places=6, max_digits=14)),
                ("cached_price", models.DecimalField(decimal_places=6, max_digits=14, null=True)),
                ("cache_write_price", models.DecimalField(decimal_places=6, max_digits=14, null=True)),
                ("output_price", models.DecimalField(decimal_places=6, max_digits=14)),
                ("updated_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="price_overrides", to="ingest.project"
                    ),
                ),
                (
                    "updated_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="AlertDelivery",
            fields=[
                ("cell", models.BigIntegerField()),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cell", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "id",
                    models.BigIntegerField(
                        db_default=models.Func(
                            models.Value("viewer_alertdelivery_id_seq"),
                            function="nextval",
                            output_field=models.BigIntegerField(),
                        ),
                        editable=False,
                    ),
                ),
                ("alert_id", models.BigIntegerField()),
                ("channel", models.TextField(choices=[("webhook", "Webhook"), ("email", "Email")])),
                ("recipient", models.TextField()),
                (
                    "state",
                    models.TextField(
                        choices=[("pending", "Pending"), ("sent", "Sent"), ("failed", "Failed")], default="pending"
                    ),
                ),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("next_attempt_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("finished_at", models.DateTimeField(null=True)),
                ("result", models.TextField(blank=True)),
                (
                    "alert",
                    models.ForeignObject(
                        from_fields=("cell", "alert_id"),
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="viewer.alert",
                        to_fields=("cell", "id"),
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["cell", "alert_id"], name="delivery_alert"),
                    models.Index(
                        condition=models.Q(("state", "pending")), fields=["next_attempt_at"], name="delivery_pending"
                    ),
                ],
            },
        ),
        migrations.AddIndex(
            model_name="alertrule",
            index=models.Index(fields=["project", "kind"], name="alert_rule_project"),
        ),
        migrations.AddIndex(
            model_name="alert",
            index=models.Index(fields=["cell", "-fired_at"], name="alert_newest"),
        ),
        migrations.AddIndex(
            model_name="bookmark",
            index=models.Index(fields=["cell", "session_key"], name="bookmark_session"),
        ),
        migrations.AddIndex(
            model_name="comment",
            index=models.Index(fields=["cell", "session_key", "created_at"], name="comment_session"),
        ),
        migrations.AddConstraint(
            model_name="membership",
            constraint=models.UniqueConstraint(fields=("user", "project"), name="one_membership"),
        ),
        migrations.AddIndex(
            model_name="mention",
            index=models.Index(fields=["cell", "user", "-created_at"], name="mention_newest"),
        ),
        migrations.AddConstraint(
            model_name="priceoverride",
            constraint=models.UniqueConstraint(fields=("project", "model"), name="one_price"),
        ),
        migrations.RunSQL(OWNED),
    ]
