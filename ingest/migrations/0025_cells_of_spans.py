"""Key traces and spans by cell. The table of spans outside the session of their trace gets a plain name.

Each table is written again, under a lock. The server is stopped during the upgrade to this version.
"""

from django.db import migrations, models


def composite(*key):
    return models.CompositePrimaryKey(*key, blank=True, editable=False, primary_key=True, serialize=False)


TRACE_KEY = ("cell", "trace_key")
SPAN_KEY = ("cell", "session_key", "session_day", "trace_id", "span_id")
SPAN_SESSION_KEY = ("cell", "trace_key", "span_id")
# Each project has one cell. The indexes on the project follow the column.
TO_CELL = """
ALTER TABLE {table} DROP CONSTRAINT {table}_pkey,
  ALTER COLUMN project_id TYPE bigint USING project_id::bigint * 1024
"""


def convert(table, key):
    return [
        TO_CELL.format(table=table),
        f"ALTER TABLE {table} RENAME COLUMN project_id TO cell",
        f"ALTER TABLE {table} ADD PRIMARY KEY ({', '.join(key)})",
    ]


FIND_CELLS = """
UPDATE ingest_stray s SET cell = t.cell FROM ingest_trace t WHERE t.trace_key = s.trace_key
"""
OUTSIDE = [
    "ALTER TABLE ingest_stray RENAME TO ingest_spansession",
    "ALTER TABLE ingest_spansession DROP CONSTRAINT ingest_stray_pkey",
    "ALTER TABLE ingest_spansession ALTER COLUMN cell SET NOT NULL",
    f"ALTER TABLE ingest_spansession ADD PRIMARY KEY ({', '.join(SPAN_SESSION_KEY)})",
    "DROP INDEX stray_session",
    "CREATE INDEX spansession_session ON ingest_spansession (cell, session_key)",
]


class Migration(migrations.Migration):
    dependencies = [("ingest", "0024_cells_of_the_archive")]
    operations = [
        migrations.RunSQL(
            [
                *convert("ingest_trace", TRACE_KEY),
                "DROP INDEX trace_session",
                "CREATE INDEX trace_session ON ingest_trace (cell, session_key)",
            ],
            state_operations=[
                migrations.RenameField("trace", "project_id", "cell"),
                migrations.AlterField("trace", "cell", models.BigIntegerField()),
                migrations.AlterField("trace", "trace_key", models.UUIDField()),
                migrations.AddField("trace", "pk", composite(*TRACE_KEY)),
                migrations.RemoveIndex("trace", "trace_session"),
                migrations.AddIndex("trace", models.Index(fields=["cell", "session_key"], name="trace_session")),
            ],
        ),
        migrations.RunSQL(
            [
                "ALTER TABLE ingest_stray ADD COLUMN cell bigint",
                FIND_CELLS,
                "DELETE FROM ingest_stray WHERE cell IS NULL",
                *OUTSIDE,
            ],
            state_operations=[
                migrations.DeleteModel("Stray"),
                migrations.CreateModel(
                    name="SpanSession",
                    fields=[
                        ("pk", composite(*SPAN_SESSION_KEY)),
                        ("cell", models.BigIntegerField()),
                        ("trace_key", models.UUIDField()),
                        ("span_id", models.TextField()),
                        ("session_key", models.UUIDField()),
                    ],
                    options={"indexes": [models.Index(fields=["cell", "session_key"], name="spansession_session")]},
                ),
            ],
        ),
        migrations.RunSQL(
            convert("ingest_span", SPAN_KEY),
            state_operations=[
                migrations.RemoveField("span", "pk"),
                migrations.RenameField("span", "project_id", "cell"),
                migrations.AlterField("span", "cell", models.BigIntegerField()),
                migrations.AddField("span", "pk", composite(*SPAN_KEY)),
            ],
        ),
    ]
