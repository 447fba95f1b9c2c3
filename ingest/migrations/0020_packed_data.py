"""Add the column of packed data, and allow rows without jsonb.

No row changes. A later migration converts stored data.
"""

from django.db import migrations, models

# Fail instead of blocking all writers behind a long query or a backup. The migration can be repeated.
FORWARD = [
    "SET LOCAL lock_timeout = '10s'",
    """
ALTER TABLE ingest_span ADD COLUMN packed_data bytea, ALTER COLUMN data DROP NOT NULL, ALTER COLUMN data DROP DEFAULT
""",
]
BACKWARD = [
    "SET LOCAL lock_timeout = '10s'",
    """
ALTER TABLE ingest_span DROP COLUMN packed_data, ALTER COLUMN data SET DEFAULT '{}', ALTER COLUMN data SET NOT NULL
""",
]


def refuse_to_lose_data(_apps, schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM ingest_span WHERE packed_data IS NOT NULL)")
        if cursor.fetchone()[0]:
            raise RuntimeError("This would delete the data of stored spans. Restore the backup instead.")


class Migration(migrations.Migration):
    dependencies = [("ingest", "0019_errors_without_fallbacks")]
    operations = [
        migrations.RunSQL(
            FORWARD,
            BACKWARD,
            state_operations=[
                migrations.AddField("span", "packed_data", models.BinaryField(null=True)),
                migrations.AlterField("span", "data", models.JSONField(null=True)),
            ],
        ),
        # Migrations are reversed from the last operation to the first.
        migrations.RunPython(migrations.RunPython.noop, refuse_to_lose_data),
    ]
