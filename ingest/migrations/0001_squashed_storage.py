"""Create the storage of version 0.2.0, the first one that later versions keep.

A database of an earlier version runs the migrations that this one replaces.
"""

import django.contrib.postgres.fields
import django.contrib.postgres.search
import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.comparison
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

# Columns of fixed size come first, which saves the space that alignment would take.
SPANS = """
CREATE TABLE ingest_span (
    cell bigint NOT NULL,
    seq bigint NOT NULL,
    session_key uuid NOT NULL,
    session_day date NOT NULL,
    tokens integer,
    started_at timestamptz,
    ended_at timestamptz,
    arguments_hash bigint,
    trace_id text NOT NULL,
    span_id text NOT NULL,
    parent_id text,
    kind text NOT NULL DEFAULT '',
    name text NOT NULL DEFAULT '',
    status text NOT NULL DEFAULT '',
    data bytea,
    payload bytea,
    PRIMARY KEY (cell, session_key, session_day, trace_id, span_id)
) PARTITION BY RANGE (session_day)
"""
SEARCH = """
CREATE TABLE ingest_search (
    cell bigint NOT NULL,
    seq bigint NOT NULL,
    session_key uuid NOT NULL,
    item uuid NOT NULL,
    session_day date NOT NULL,
    trace_id text,
    span_id text,
    message bytea,
    words tsvector NOT NULL,
    PRIMARY KEY (cell, session_key, session_day, item)
) PARTITION BY RANGE (session_day)
"""
CHAIN = """
CREATE TABLE ingest_chainlink (
    cell bigint NOT NULL,
    session_key uuid NOT NULL,
    position integer NOT NULL CHECK (position >= 0),
    session_id text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('stored', 'deleted')),
    step integer NOT NULL,
    time timestamptz NOT NULL,
    sha256 text NOT NULL,
    manifest jsonb NOT NULL,
    previous text NOT NULL,
    chain text NOT NULL,
    PRIMARY KEY (cell, session_key, position)
)
"""
APPEND_ONLY = """
CREATE FUNCTION ariadne_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'insufficient_privilege';
END $$
"""
TABLES = [
    SPANS,
    "CREATE INDEX span_changes ON ingest_span (session_key, seq)",
    "CREATE INDEX span_archivals ON ingest_span (cell, seq) WHERE kind = 'compact.archival'",
    SEARCH,
    # A search reads the pending list from start to end, so it is kept short.
    "CREATE INDEX search_words ON ingest_search USING gin (words) WITH (gin_pending_list_limit = 512)",
    CHAIN,
    "CREATE INDEX chainlink_time ON ingest_chainlink (time, session_key, position)",
    APPEND_ONLY,
    "CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ingest_chainlink"
    " FOR EACH STATEMENT EXECUTE FUNCTION ariadne_append_only()",
]
OPTIONS = [
    "CREATE TRIGGER no_update BEFORE UPDATE ON ingest_transcript"
    " FOR EACH STATEMENT EXECUTE FUNCTION ariadne_append_only()",
    "CREATE TRIGGER no_update BEFORE UPDATE ON ingest_content"
    " FOR EACH STATEMENT EXECUTE FUNCTION ariadne_append_only()",
    # Messages are compressed already.
    "ALTER TABLE ingest_message ALTER COLUMN body SET STORAGE EXTERNAL",
]


class Migration(migrations.Migration):
    initial = True
    replaces = [
        ("ingest", "0001_initial"),
        ("ingest", "0002_spans"),
        ("ingest", "0003_chain"),
        ("ingest", "0004_message"),
        ("ingest", "0005_session_day"),
        ("ingest", "0006_stray"),
        ("ingest", "0007_policy_times"),
        ("ingest", "0008_view_reason"),
        ("ingest", "0009_anchor_mark"),
        ("ingest", "0010_archival_index"),
        ("ingest", "0011_usage"),
        ("ingest", "0012_search"),
        ("ingest", "0013_session_facts"),
        ("ingest", "0014_trends"),
        ("ingest", "0015_redaction_rule"),
        ("ingest", "0016_session_orders"),
        ("ingest", "0017_label"),
        ("ingest", "0018_packed_payload"),
        ("ingest", "0019_errors_without_fallbacks"),
        ("ingest", "0020_packed_data"),
        ("ingest", "0021_cell"),
        ("ingest", "0022_retention_clock"),
        ("ingest", "0023_cells_of_figures"),
        ("ingest", "0024_cells_of_the_archive"),
        ("ingest", "0025_cells_of_spans"),
        ("ingest", "0026_cells_of_sessions"),
        ("ingest", "0027_one_stored_form"),
        ("ingest", "0028_drop_jsonb_of_spans"),
        ("ingest", "0029_cell_count"),
    ]

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL(TABLES),
        migrations.CreateModel(
            name="ChainLink",
            fields=[
                ("cell", models.BigIntegerField()),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cell", "session_key", "position", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("session_key", models.UUIDField()),
                ("position", models.IntegerField()),
                ("session_id", models.TextField()),
                ("kind", models.TextField(choices=[("stored", "Stored"), ("deleted", "Deleted")])),
                ("step", models.IntegerField()),
                ("time", models.DateTimeField()),
                ("sha256", models.TextField()),
                ("manifest", models.JSONField()),
                ("previous", models.TextField()),
                ("chain", models.TextField()),
            ],
            options={
                "db_table": "ingest_chainlink",
                "managed": False,
            },
        ),
        migrations.CreateModel(
            name="SearchDocument",
            fields=[
                ("cell", models.BigIntegerField()),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cell",
                        "session_key",
                        "session_day",
                        "item",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("session_key", models.UUIDField()),
                ("session_day", models.DateField()),
                ("item", models.UUIDField()),
                ("seq", models.BigIntegerField()),
                ("trace_id", models.TextField(null=True)),
                ("span_id", models.TextField(null=True)),
                ("message", models.BinaryField(max_length=32, null=True)),
                ("words", django.contrib.postgres.search.SearchVectorField()),
            ],
            options={
                "db_table": "ingest_search",
                "managed": False,
            },
        ),
        migrations.CreateModel(
            name="Span",
            fields=[
                ("cell", models.BigIntegerField()),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cell",
                        "session_key",
                        "session_day",
                        "trace_id",
                        "span_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("session_key", models.UUIDField()),
                ("session_day", models.DateField()),
                ("trace_id", models.TextField()),
                ("span_id", models.TextField()),
                ("seq", models.BigIntegerField()),
                ("parent_id", models.TextField(null=True)),
                ("kind", models.TextField(default="")),
                ("name", models.TextField(default="")),
                ("status", models.TextField(choices=[("", "Unset"), ("ok", "Ok"), ("error", "Error")], default="")),
                ("started_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("tokens", models.IntegerField(null=True)),
                ("data", models.BinaryField(null=True)),
                ("payload", models.BinaryField(null=True)),
                ("arguments_hash", models.BigIntegerField(null=True)),
            ],
            options={
                "db_table": "ingest_span",
                "managed": False,
            },
        ),
        migrations.CreateModel(
            name="AnchorMark",
            fields=[
                ("number", models.BigIntegerField(primary_key=True, serialize=False)),
                ("until", models.DateTimeField()),
                ("hash", models.CharField(max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name="Cell",
            fields=[
                ("cell", models.BigIntegerField(primary_key=True, serialize=False)),
                ("seq", models.BigIntegerField()),
                ("cell_count", models.PositiveSmallIntegerField(db_default=1, default=1)),
            ],
        ),
        migrations.CreateModel(
            name="Content",
            fields=[
                ("cell", models.BigIntegerField()),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cell", "hash", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("hash", models.BinaryField(max_length=32)),
                ("body", models.BinaryField()),
                ("size", models.IntegerField()),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="HourlyUsage",
            fields=[
                ("cell", models.BigIntegerField()),
                ("hour", models.DateTimeField()),
                ("model", models.TextField()),
                ("provider", models.TextField()),
                ("is_summary", models.BooleanField()),
                ("prompt_size", models.IntegerField()),
                ("call_count", models.IntegerField()),
                ("input_tokens", models.BigIntegerField()),
                ("cached_tokens", models.BigIntegerField()),
                ("cache_write_tokens", models.BigIntegerField()),
                ("output_tokens", models.BigIntegerField()),
                ("reasoning_tokens", models.BigIntegerField()),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cell",
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
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Project",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.SlugField(unique=True)),
                ("name", models.CharField(max_length=200)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "retention_days",
                    models.PositiveIntegerField(blank=True, help_text="Leave empty to keep data forever.", null=True),
                ),
                ("legal_hold", models.BooleanField(default=False, help_text="Blocks all deletion in this project.")),
                (
                    "requires_view_reason",
                    models.BooleanField(
                        db_default=False,
                        default=False,
                        help_text="People enter a reason before they see payloads. It is recorded in the audit log.",
                    ),
                ),
                ("cell_count", models.PositiveSmallIntegerField(db_default=1, default=1, editable=False)),
            ],
        ),
        migrations.CreateModel(
            name="RetentionClock",
            fields=[
                ("id", models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("checked_at", models.DateTimeField()),
                ("waited_s", models.BigIntegerField(default=0)),
                ("problem", models.TextField(default="")),
            ],
        ),
        migrations.CreateModel(
            name="SearchState",
            fields=[
                ("cell", models.BigIntegerField(primary_key=True, serialize=False)),
                ("seq", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="Trend",
            fields=[
                ("cell", models.BigIntegerField()),
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
                        "cell", "hour", "model", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="Activity",
            fields=[
                ("cell", models.BigIntegerField()),
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
                        "cell", "session_key", "hour", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("session_key", models.UUIDField()),
            ],
            options={
                "indexes": [models.Index(fields=["cell", "hour"], name="activity_hour")],
            },
        ),
        migrations.CreateModel(
            name="Label",
            fields=[
                ("cell", models.BigIntegerField()),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cell",
                        "session_key",
                        "key",
                        "value",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("session_key", models.UUIDField()),
                ("key", models.TextField()),
                ("value", models.TextField()),
            ],
            options={
                "indexes": [models.Index(fields=["cell", "value", "key", "session_key"], name="label_value")],
            },
        ),
        migrations.CreateModel(
            name="Message",
            fields=[
                ("cell", models.BigIntegerField()),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cell", "hash", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("hash", models.BinaryField(max_length=32)),
                ("day", models.DateField()),
                ("size", models.IntegerField()),
                ("body", models.BinaryField()),
            ],
            options={
                "indexes": [models.Index(fields=["cell", "day"], name="message_day")],
            },
        ),
        migrations.CreateModel(
            name="RetentionMark",
            fields=[
                (
                    "project",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="retention_mark",
                        serialize=False,
                        to="ingest.project",
                    ),
                ),
                ("cutoff", models.DateField()),
                ("marked_at", models.DateTimeField()),
                ("waited_s", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="IngestKey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("label", models.CharField(max_length=100)),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("hint", models.CharField(max_length=16)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="ingest_keys", to="ingest.project"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Session",
            fields=[
                ("cell", models.BigIntegerField()),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cell", "session_key", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("session_key", models.UUIDField()),
                ("session_id", models.TextField()),
                ("day", models.DateField()),
                ("created_at", models.DateTimeField()),
                ("first_at", models.DateTimeField(null=True)),
                ("last_at", models.DateTimeField(null=True)),
                ("last_seq", models.BigIntegerField()),
                ("span_count", models.IntegerField(default=0)),
                ("running_count", models.IntegerField(default=0)),
                ("error_count", models.IntegerField(default=0)),
                ("turn_count", models.IntegerField(default=0)),
                ("turn_span_count", models.IntegerField(default=0)),
                ("check_count", models.IntegerField(default=0)),
                ("compaction_count", models.IntegerField(default=0)),
                ("fallback_count", models.IntegerField(default=0)),
                ("model", models.TextField(default="")),
                ("model_at", models.DateTimeField(null=True)),
                ("peak_tokens", models.IntegerField(default=0)),
                ("window_tokens", models.IntegerField(default=0)),
                ("window_at", models.DateTimeField(null=True)),
                ("trigger_tokens", models.IntegerField(default=0)),
                ("trigger_at", models.DateTimeField(null=True)),
                ("last_tokens", models.IntegerField(default=0)),
                ("last_tokens_at", models.DateTimeField(null=True)),
                ("facts_total", models.IntegerField(db_default=0, default=0)),
                ("facts_kept", models.IntegerField(db_default=0, default=0)),
                ("worst_retention", models.FloatField(null=True)),
                ("worst_lost", models.IntegerField(null=True)),
                ("worst_total", models.IntegerField(null=True)),
                ("worst_check", models.TextField(null=True)),
                ("overflow_count", models.IntegerField(db_default=0, default=0)),
                ("trend_model", models.TextField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["cell", "-last_seq"], name="session_newest"),
                    models.Index(fields=["cell", "day"], name="session_day"),
                    models.Index(
                        models.F("cell"),
                        django.db.models.functions.comparison.Coalesce("last_at", "created_at"),
                        models.F("session_key"),
                        name="session_active",
                    ),
                    models.Index(fields=["cell", "turn_count", "session_key"], name="session_turns"),
                    models.Index(fields=["cell", "compaction_count", "session_key"], name="session_compactions"),
                    models.Index(fields=["cell", "peak_tokens", "session_key"], name="session_peak"),
                    models.Index(
                        models.F("cell"),
                        django.db.models.functions.comparison.Coalesce("worst_lost", -1),
                        models.F("session_key"),
                        name="session_facts",
                    ),
                    models.Index(fields=["cell", "error_count", "session_key"], name="session_errors"),
                    models.Index(fields=["cell", "span_count", "session_key"], name="session_spans"),
                    models.Index(
                        condition=models.Q(("fallback_count__gt", 0)),
                        fields=["cell", "fallback_count"],
                        name="session_fallbacks",
                    ),
                    models.Index(
                        condition=models.Q(("overflow_count__gt", 0)),
                        fields=["cell", "overflow_count"],
                        name="session_overflows",
                    ),
                    models.Index(
                        condition=models.Q(("running_count__gt", 0)),
                        fields=["cell", "last_seq"],
                        name="session_running",
                    ),
                    models.Index(
                        condition=models.Q(("worst_retention__lt", 0.9)),
                        fields=["cell", "last_seq"],
                        name="session_lossy",
                    ),
                    models.Index(
                        condition=models.Q(
                            (
                                "last_tokens__gte",
                                django.db.models.expressions.CombinedExpression(
                                    models.F("trigger_tokens"), "*", models.Value(0.9)
                                ),
                            ),
                            ("trigger_tokens__gt", 0),
                        ),
                        fields=["cell", "last_seq"],
                        name="session_near",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="SpanSession",
            fields=[
                ("cell", models.BigIntegerField()),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cell", "trace_key", "span_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("trace_key", models.UUIDField()),
                ("span_id", models.TextField()),
                ("session_key", models.UUIDField()),
            ],
            options={
                "indexes": [models.Index(fields=["cell", "session_key"], name="spansession_session")],
            },
        ),
        migrations.CreateModel(
            name="Trace",
            fields=[
                ("cell", models.BigIntegerField()),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cell", "trace_key", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("trace_key", models.UUIDField()),
                ("trace_id", models.TextField()),
                ("session_key", models.UUIDField()),
                ("source", models.SmallIntegerField(choices=[(0, "Trace Id"), (1, "Span"), (2, "Group")])),
                ("is_mixed", models.BooleanField(default=False)),
                ("seq", models.BigIntegerField()),
                ("name", models.TextField(default="")),
                ("started_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("metadata", models.JSONField(default=dict)),
            ],
            options={
                "indexes": [models.Index(fields=["cell", "session_key"], name="trace_session")],
            },
        ),
        migrations.CreateModel(
            name="Transcript",
            fields=[
                ("cell", models.BigIntegerField()),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cell", "session_key", "step", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("session_key", models.UUIDField()),
                ("step", models.IntegerField()),
                ("session_id", models.TextField()),
                ("created_at", models.DateTimeField()),
                ("received_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("message_count", models.IntegerField()),
                ("size", models.BigIntegerField()),
                ("sha256", models.CharField(max_length=64)),
                ("sent_sha256", models.CharField(max_length=64)),
                ("hashes", models.BinaryField()),
                ("ids", models.JSONField(null=True)),
                ("redactions", models.JSONField(default=dict)),
                ("chain", models.CharField(max_length=64)),
            ],
            options={
                "indexes": [models.Index(fields=["cell", "-received_at"], name="transcript_newest")],
            },
        ),
        migrations.CreateModel(
            name="Usage",
            fields=[
                ("cell", models.BigIntegerField()),
                ("hour", models.DateTimeField()),
                ("model", models.TextField()),
                ("provider", models.TextField()),
                ("is_summary", models.BooleanField()),
                ("prompt_size", models.IntegerField()),
                ("call_count", models.IntegerField()),
                ("input_tokens", models.BigIntegerField()),
                ("cached_tokens", models.BigIntegerField()),
                ("cache_write_tokens", models.BigIntegerField()),
                ("output_tokens", models.BigIntegerField()),
                ("reasoning_tokens", models.BigIntegerField()),
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cell",
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
            ],
            options={
                "indexes": [models.Index(fields=["cell", "hour"], name="usage_hour")],
            },
        ),
        migrations.CreateModel(
            name="RedactionRule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(choices=[("pattern", "Pattern"), ("allow", "Allow")], max_length=10)),
                ("name", models.CharField(blank=True, default="", max_length=60)),
                ("value", models.CharField(max_length=500)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="redaction_rules", to="ingest.project"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("project", "kind", "value"), name="redaction_rule_once"),
                    models.UniqueConstraint(
                        condition=models.Q(("kind", "pattern")), fields=("project", "name"), name="redaction_rule_name"
                    ),
                ],
            },
        ),
        migrations.RunSQL(OPTIONS),
    ]
