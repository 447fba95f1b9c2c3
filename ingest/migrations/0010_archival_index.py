"""Index the archival events, which the list of transcripts reads across sessions. They are few among the spans."""

from django.db import migrations

NAME = "span_archivals"
DEFINITION = "(project_id, seq) WHERE kind = 'compact.archival'"
PARTITIONS = """
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'ingest_span'::regclass ORDER BY c.relname
"""


def create_index(apps, schema_editor):
    """Create the index partition by partition, because a partitioned table has no concurrent index creation."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(f"CREATE INDEX IF NOT EXISTS {NAME} ON ONLY ingest_span {DEFINITION}")
        cursor.execute(PARTITIONS)
        for (partition,) in cursor.fetchall():
            index = f"{partition}_archivals"
            cursor.execute("SELECT 1 FROM pg_inherits WHERE inhrelid = to_regclass(%s)", [f'"{index}"'])
            if cursor.fetchone():
                continue
            # A concurrent creation that failed leaves an invalid index, so a second run replaces it.
            cursor.execute(f'DROP INDEX CONCURRENTLY IF EXISTS "{index}"')
            cursor.execute(f'CREATE INDEX CONCURRENTLY "{index}" ON "{partition}" {DEFINITION}')
            cursor.execute(f'ALTER INDEX {NAME} ATTACH PARTITION "{index}"')


def drop_index(apps, schema_editor):
    schema_editor.execute(f"DROP INDEX {NAME}")


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("ingest", "0009_anchor_mark")]
    operations = [migrations.RunPython(create_index, drop_index)]
