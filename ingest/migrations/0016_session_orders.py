"""Add the indexes of the session list's orders and filters, and the billed tokens of projects by hour."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import F, Q
from django.db.models.functions import Coalesce

NEAR_LIMIT = Q(trigger_tokens__gt=0, last_tokens__gte=F("trigger_tokens") * 0.9)
INDEXES = [
    models.Index(F("project_id"), Coalesce("last_at", "created_at"), F("session_key"), name="session_active"),
    models.Index(fields=["project_id", "turn_count", "session_key"], name="session_turns"),
    models.Index(fields=["project_id", "compaction_count", "session_key"], name="session_compactions"),
    models.Index(fields=["project_id", "peak_tokens", "session_key"], name="session_peak"),
    models.Index(F("project_id"), Coalesce("worst_lost", -1), F("session_key"), name="session_facts"),
    models.Index(fields=["project_id", "error_count", "session_key"], name="session_errors"),
    models.Index(fields=["project_id", "span_count", "session_key"], name="session_spans"),
    models.Index(fields=["project_id", "fallback_count"], name="session_fallbacks", condition=Q(fallback_count__gt=0)),
    models.Index(fields=["project_id", "overflow_count"], name="session_overflows", condition=Q(overflow_count__gt=0)),
    models.Index(fields=["project_id", "last_seq"], name="session_running", condition=Q(running_count__gt=0)),
    models.Index(fields=["project_id", "last_seq"], name="session_lossy", condition=Q(worst_retention__lt=0.9)),
    models.Index(fields=["project_id", "last_seq"], name="session_near", condition=NEAR_LIMIT),
]
SUM_STORED_USAGE = """
INSERT INTO ingest_hourlyusage (project_id, hour, model, provider, is_summary, prompt_size, call_count, input_tokens,
  cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens)
SELECT project_id, hour, model, provider, is_summary, prompt_size, sum(call_count), sum(input_tokens),
  sum(cached_tokens), sum(cache_write_tokens), sum(output_tokens), sum(reasoning_tokens)
FROM ingest_usage GROUP BY 1, 2, 3, 4, 5, 6 ON CONFLICT DO NOTHING
"""


class Migration(migrations.Migration):
    atomic = False  # indexes are created concurrently
    dependencies = [("ingest", "0015_redaction_rule")]
    operations = [
        migrations.CreateModel(
            name="HourlyUsage",
            fields=[
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
                (
                    "pk",
                    models.CompositePrimaryKey(
                        *("project_id", "hour", "model", "provider", "is_summary", "prompt_size"),
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
            ],
            options={"abstract": False},
        ),
        migrations.RunSQL(SUM_STORED_USAGE, migrations.RunSQL.noop),
        *(AddIndexConcurrently("session", index) for index in INDEXES),
    ]
