"""Create the table of billed tokens by session, hour and model."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("ingest", "0010_archival_index"),
    ]

    operations = [
        migrations.CreateModel(
            name="Usage",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "session_key",
                        "hour",
                        "model",
                        "provider",
                        "is_summary",
                        "prompt_size",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("session_key", models.UUIDField()),
                ("hour", models.DateTimeField()),
                ("model", models.TextField()),
                ("provider", models.TextField()),
                ("is_summary", models.BooleanField()),
                ("prompt_size", models.IntegerField()),
                ("project_id", models.IntegerField()),
                ("call_count", models.IntegerField()),
                ("input_tokens", models.BigIntegerField()),
                ("cached_tokens", models.BigIntegerField()),
                ("cache_write_tokens", models.BigIntegerField()),
                ("output_tokens", models.BigIntegerField()),
                ("reasoning_tokens", models.BigIntegerField()),
            ],
            options={
                "indexes": [models.Index(fields=["project_id", "hour"], name="usage_hour")],
            },
        ),
    ]
