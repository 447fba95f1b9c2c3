"""Create the API tokens and the append-only audit log."""

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

FORWARD = [
    """
CREATE TABLE viewer_auditentry (
    position bigint PRIMARY KEY CHECK (position >= 0),
    at timestamptz NOT NULL,
    actor_id integer,
    actor text NOT NULL,
    address text NOT NULL,
    agent text NOT NULL,
    action text NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('ok', 'denied')),
    project_id integer,
    target text NOT NULL,
    reason text NOT NULL,
    detail jsonb NOT NULL,
    previous text NOT NULL,
    hash text NOT NULL
)
""",
    "CREATE INDEX auditentry_project ON viewer_auditentry (project_id, position DESC)",
    "CREATE INDEX auditentry_actor ON viewer_auditentry (actor_id, position DESC)",
    """
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON viewer_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION ariadne_append_only()
""",
    """
-- The trigger stops everyone who does not own the table; without these rights even a dropped trigger does not help them.
REVOKE UPDATE, DELETE, TRUNCATE ON viewer_auditentry, ingest_chainlink FROM PUBLIC, CURRENT_USER
""",
]

BACKWARD = "DROP TABLE viewer_auditentry;"


class Migration(migrations.Migration):
    dependencies = [
        ("ingest", "0003_chain"),
        ("viewer", "0002_roles"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
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
            name="AuditEntry",
            fields=[
                ("position", models.BigIntegerField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
                ("actor_id", models.IntegerField(null=True)),
                ("actor", models.TextField()),
                ("address", models.TextField()),
                ("agent", models.TextField()),
                ("action", models.TextField()),
                ("outcome", models.TextField(choices=[("ok", "Ok"), ("denied", "Denied")])),
                ("project_id", models.IntegerField(null=True)),
                ("target", models.TextField()),
                ("reason", models.TextField()),
                ("detail", models.JSONField()),
                ("previous", models.TextField()),
                ("hash", models.TextField()),
            ],
            options={"db_table": "viewer_auditentry", "managed": False},
        ),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
