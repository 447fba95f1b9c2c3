"""Key sessions and the search index by cell.

Each table is written again, under a lock. The server is stopped during the upgrade to this version.
"""

from django.db import migrations, models
from django.db.models import F, Q
from django.db.models.functions import Coalesce

NEAR_LIMIT = Q(trigger_tokens__gt=0, last_tokens__gte=F("trigger_tokens") * 0.9)
INDEXES = [
    models.Index(fields=["cell", "-last_seq"], name="session_newest"),
    models.Index(fields=["cell", "day"], name="session_day"),
    models.Index(F("cell"), Coalesce("last_at", "created_at"), F("session_key"), name="session_active"),
    models.Index(fields=["cell", "turn_count", "session_key"], name="session_turns"),
    models.Index(fields=["cell", "compaction_count", "session_key"], name="session_compactions"),
    models.Index(fields=["cell", "peak_tokens", "session_key"], name="session_peak"),
    models.Index(F("cell"), Coalesce("worst_lost", -1), F("session_key"), name="session_facts"),
    models.Index(fields=["cell", "error_count", "session_key"], name="session_errors"),
    models.Index(fields=["cell", "span_count", "session_key"], name="session_spans"),
    models.Index(fields=["cell", "fallback_count"], name="session_fallbacks", condition=Q(fallback_count__gt=0)),
    models.Index(fields=["cell", "overflow_count"], name="session_overflows", condition=Q(overflow_count__gt=0)),
    models.Index(fields=["cell", "last_seq"], name="session_running", condition=Q(running_count__gt=0)),
    models.Index(fields=["cell", "last_seq"], name="session_lossy", condition=Q(worst_retention__lt=0.9)),
    models.Index(fields=["cell", "last_seq"], name="session_near", condition=NEAR_LIMIT),
]
SESSION_KEY = ("cell", "session_key")
SEARCH_KEY = ("cell", "session_key", "session_day", "item")
# Each project has one cell. The indexes on the project follow the column.
TO_CELL = """
ALTER TABLE {table} DROP CONSTRAINT {table}_pkey,
  ALTER COLUMN project_id TYPE bigint USING project_id::bigint * 1024
"""


def composite(*key):
    return models.CompositePrimaryKey(*key, blank=True, editable=False, primary_key=True, serialize=False)


def convert(table, key):
    return [
        TO_CELL.format(table=table),
        f"ALTER TABLE {table} RENAME COLUMN project_id TO cell",
        f"ALTER TABLE {table} ADD PRIMARY KEY ({', '.join(key)})",
    ]


class Migration(migrations.Migration):
    dependencies = [("ingest", "0025_cells_of_spans")]
    operations = [
        migrations.RunSQL(
            [
                *convert("ingest_session", SESSION_KEY),
                "DROP INDEX session_day",
                "CREATE INDEX session_day ON ingest_session (cell, day)",
            ],
            state_operations=[
                migrations.RenameField("session", "project_id", "cell"),
                migrations.AlterField("session", "cell", models.BigIntegerField()),
                migrations.AlterField("session", "session_key", models.UUIDField()),
                migrations.AddField("session", "pk", composite(*SESSION_KEY)),
                *(migrations.RemoveIndex("session", index.name) for index in INDEXES),
                *(migrations.AddIndex("session", index) for index in INDEXES),
            ],
        ),
        migrations.RunSQL(
            convert("ingest_search", SEARCH_KEY),
            state_operations=[
                migrations.RemoveField("searchdocument", "pk"),
                migrations.RenameField("searchdocument", "project_id", "cell"),
                migrations.AlterField("searchdocument", "cell", models.BigIntegerField()),
                migrations.AddField("searchdocument", "pk", composite(*SEARCH_KEY)),
            ],
        ),
        migrations.RunSQL(
            convert("ingest_searchstate", ("cell",)),
            state_operations=[
                migrations.RenameField("searchstate", "project_id", "cell"),
                migrations.AlterField("searchstate", "cell", models.BigIntegerField(primary_key=True, serialize=False)),
            ],
        ),
    ]
