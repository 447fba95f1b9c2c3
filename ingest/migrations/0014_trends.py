"""Create the hourly figures of sessions, projects and models, and what the worst compaction of a session lost."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ingest", "0013_session_facts"),
    ]

    operations = [
        migrations.CreateModel(
            name="Trend",
            fields=[
                ("project_id", models.IntegerField()),
                ("hour", models.DateTimeField()),
                ("model", models.TextField()),
                ("compactions", models.BigIntegerField(default=0)),
                ("tokens_freed", models.BigIntegerField(default=0)),
                ("cache_lost_tokens", models.BigIntegerField(default=0)),
                ("facts_total", models.BigIntegerField(default=0)),
                ("facts_kept", models.BigIntegerField(default=0)),
                ("fallbacks", models.BigIntegerField(default=0)),
                ("overflows", models.BigIntegerField(default=0)),
                ("errors", models.BigIntegerField(default=0)),
                (
                    "kept_counts",
                    django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), null=True, size=None),
                ),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "project_id", "hour", "model", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.AddField(
            model_name="session",
            name="overflow_count",
            field=models.IntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="session",
            name="trend_model",
            field=models.TextField(null=True),
        ),
        migrations.AddField(
            model_name="session",
            name="worst_check",
            field=models.TextField(null=True),
        ),
        migrations.AddField(
            model_name="session",
            name="worst_lost",
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name="session",
            name="worst_total",
            field=models.IntegerField(null=True),
        ),
        migrations.CreateModel(
            name="Activity",
            fields=[
                ("project_id", models.IntegerField()),
                ("hour", models.DateTimeField()),
                ("model", models.TextField()),
                ("compactions", models.BigIntegerField(default=0)),
                ("tokens_freed", models.BigIntegerField(default=0)),
                ("cache_lost_tokens", models.BigIntegerField(default=0)),
                ("facts_total", models.BigIntegerField(default=0)),
                ("facts_kept", models.BigIntegerField(default=0)),
                ("fallbacks", models.BigIntegerField(default=0)),
                ("overflows", models.BigIntegerField(default=0)),
                ("errors", models.BigIntegerField(default=0)),
                (
                    "kept_counts",
                    django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), null=True, size=None),
                ),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "session_key", "hour", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("session_key", models.UUIDField()),
            ],
            options={
                "indexes": [models.Index(fields=["project_id", "hour"], name="activity_hour")],
            },
        ),
    ]
