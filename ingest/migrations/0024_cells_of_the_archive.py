"""Key messages, transcripts and the chain of the archive by cell instead of by project.

Each table is written again, under a lock. The server is stopped during the upgrade to this version. No trigger runs,
and hashes do not change: links are hashed with their project, which the cell tells.
"""

from django.db import migrations, models

# Each project has one cell. The indexes follow the column.
TO_CELL = """
ALTER TABLE ingest_{name} DROP CONSTRAINT ingest_{name}_pkey,
  ALTER COLUMN project_id TYPE bigint USING project_id::bigint * 1024
"""
FROM_CELL = """
ALTER TABLE ingest_{name} DROP CONSTRAINT ingest_{name}_pkey,
  ALTER COLUMN project_id TYPE integer USING project_id / 1024
"""
CELLS = "INSERT INTO ingest_cell SELECT DISTINCT cell, 0 FROM ingest_{name} ON CONFLICT DO NOTHING"
# Table, old key, new key.
KEYS = (
    ("message", "hash, project_id", "cell, hash"),
    ("content", "hash, project_id", "cell, hash"),
    ("transcript", "session_key, step", "cell, session_key, step"),
    ("chainlink", "session_key, position", "cell, session_key, position"),
)
INDEXES = {
    "message": models.Index(fields=["cell", "day"], name="message_day"),
    "transcript": models.Index(fields=["cell", "-received_at"], name="transcript_newest"),
}


def convert(name, old_key, new_key):
    pk = models.CompositePrimaryKey(*new_key.split(", "), blank=True, editable=False, primary_key=True, serialize=False)
    index = INDEXES.get(name)
    return migrations.RunSQL(
        [
            TO_CELL.format(name=name),
            f"ALTER TABLE ingest_{name} RENAME COLUMN project_id TO cell",
            f"ALTER TABLE ingest_{name} ADD PRIMARY KEY ({new_key})",
            CELLS.format(name=name),
        ],
        [
            f"ALTER TABLE ingest_{name} RENAME COLUMN cell TO project_id",
            FROM_CELL.format(name=name),
            f"ALTER TABLE ingest_{name} ADD PRIMARY KEY ({old_key})",
        ],
        state_operations=[
            migrations.RemoveField(name, "pk"),
            migrations.RenameField(name, "project_id", "cell"),
            migrations.AlterField(name, "cell", models.BigIntegerField()),
            migrations.AddField(name, "pk", pk),
            *([migrations.RemoveIndex(name, index.name), migrations.AddIndex(name, index)] if index else []),
        ],
    )


class Migration(migrations.Migration):
    dependencies = [("ingest", "0023_cells_of_figures")]
    operations = [
        *(convert(*key) for key in KEYS),
        # The project alone found the links of a project. Now the primary key starts with the cell.
        migrations.RunSQL(
            "DROP INDEX chainlink_project",
            "CREATE INDEX chainlink_project ON ingest_chainlink (project_id, session_key)",
        ),
    ]
