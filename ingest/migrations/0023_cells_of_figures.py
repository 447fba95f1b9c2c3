"""Key hourly figures, billed tokens and labels by cell instead of by project.

Each table is written again, under a lock. The server is stopped during the upgrade to this version.
"""

from django.db import migrations, models

KEYS = {
    "activity": ("cell", "session_key", "hour"),
    "trend": ("cell", "hour", "model"),
    "usage": ("cell", "session_key", "hour", "model", "provider", "is_summary", "prompt_size"),
    "hourlyusage": ("cell", "hour", "model", "provider", "is_summary", "prompt_size"),
    "label": ("cell", "session_key", "key", "value"),
}
INDEXES = {
    "activity": models.Index(fields=["cell", "hour"], name="activity_hour"),
    "usage": models.Index(fields=["cell", "hour"], name="usage_hour"),
    "label": models.Index(fields=["cell", "value", "key", "session_key"], name="label_value"),
}
# Each project has one cell. The indexes follow the column.
TO_CELL = """
ALTER TABLE ingest_{name} DROP CONSTRAINT ingest_{name}_pkey,
  ALTER COLUMN project_id TYPE bigint USING project_id::bigint * 1024
"""
CELLS = "INSERT INTO ingest_cell SELECT DISTINCT cell, 0 FROM ingest_trend ON CONFLICT DO NOTHING"
CELLS_OF_SESSIONS = """
INSERT INTO ingest_cell SELECT DISTINCT project_id::bigint * 1024, 0 FROM ingest_session ON CONFLICT DO NOTHING
"""


def convert(name, key):
    pk = models.CompositePrimaryKey(*key, blank=True, editable=False, primary_key=True, serialize=False)
    return [
        migrations.RunSQL(
            [
                TO_CELL.format(name=name),
                f"ALTER TABLE ingest_{name} RENAME COLUMN project_id TO cell",
                f"ALTER TABLE ingest_{name} ADD PRIMARY KEY ({', '.join(key)})",
            ],
            state_operations=[
                migrations.RemoveField(name, "pk"),
                migrations.RenameField(name, "project_id", "cell"),
                migrations.AlterField(name, "cell", models.BigIntegerField()),
                migrations.AddField(name, "pk", pk),
                *(replace_index(name, INDEXES[name]) if name in INDEXES else ()),
            ],
        )
    ]


def replace_index(name, index):
    return [migrations.RemoveIndex(name, index.name), migrations.AddIndex(name, index)]


class Migration(migrations.Migration):
    dependencies = [("ingest", "0022_retention_clock")]
    operations = [
        *(operation for name, key in KEYS.items() for operation in convert(name, key)),
        migrations.RunSQL(CELLS),
        migrations.RunSQL(CELLS_OF_SESSIONS),
    ]
