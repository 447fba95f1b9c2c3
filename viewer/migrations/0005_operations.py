"""Create the tables of prices, alerts, comments and bookmarks."""

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ingest", "0011_usage"),
        ("viewer", "0004_audit_session"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="AlertCursor",
            fields=[
                (
                    "project",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="ingest.project",
                    ),
                ),
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
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("fired_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("is_test", models.BooleanField(default=False)),
                ("title", models.TextField()),
                ("figures", models.JSONField(default=dict)),
                ("sessions", models.JSONField(default=list)),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="ingest.project"
                    ),
                ),
                (
                    "rule",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="alerts", to="viewer.alertrule"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Bookmark",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("session_key", models.UUIDField()),
                ("compaction", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="ingest.project"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
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
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("session_key", models.UUIDField()),
                ("compaction", models.PositiveIntegerField(null=True)),
                ("span", models.TextField(blank=True)),
                ("text", models.TextField()),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("edited_at", models.DateTimeField(null=True)),
                (
                    "author",
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
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="ingest.project"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Mention",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("read_at", models.DateTimeField(null=True)),
                (
                    "comment",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="mentions", to="viewer.comment"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
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
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
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
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="deliveries", to="viewer.alert"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "pending")), fields=["next_attempt_at"], name="delivery_pending"
                    )
                ],
            },
        ),
        migrations.AddIndex(
            model_name="alertrule",
            index=models.Index(fields=["project", "kind"], name="alert_rule_project"),
        ),
        migrations.AddIndex(
            model_name="alert",
            index=models.Index(fields=["project", "-fired_at"], name="alert_newest"),
        ),
        migrations.AddIndex(
            model_name="bookmark",
            index=models.Index(fields=["session_key"], name="bookmark_session"),
        ),
        migrations.AddConstraint(
            model_name="bookmark",
            constraint=models.UniqueConstraint(fields=("user", "session_key", "compaction"), name="one_bookmark"),
        ),
        migrations.AddIndex(
            model_name="comment",
            index=models.Index(fields=["session_key", "created_at"], name="comment_session"),
        ),
        migrations.AddIndex(
            model_name="mention",
            index=models.Index(fields=["user", "-created_at"], name="mention_newest"),
        ),
        migrations.AddConstraint(
            model_name="mention",
            constraint=models.UniqueConstraint(fields=("comment", "user"), name="one_mention"),
        ),
        migrations.AddConstraint(
            model_name="priceoverride",
            constraint=models.UniqueConstraint(fields=("project", "model"), name="one_price"),
        ),
    ]
