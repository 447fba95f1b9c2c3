"""Add the columns of packed payloads and of the hash of tool arguments.

Adding nullable columns changes no row. A later migration converts stored payloads.
"""

from django.db import migrations, models

# Fail instead of blocking all writers behind a long query or a backup. The migration can be repeated.
FORWARD = [
    "SET LOCAL lock_timeout = '10s'",
    "ALTER TABLE ingest_span ADD COLUMN packed_payload bytea, ADD COLUMN arguments_hash bigint",
]
BACKWARD = [
    "SET LOCAL lock_timeout = '10s'",
    "ALTER TABLE ingest_span DROP COLUMN packed_payload, DROP COLUMN arguments_hash",
]


def refuse_to_lose_payloads(_apps, schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM ingest_span WHERE packed_payload IS NOT NULL)")
        if cursor.fetchone()[0]:
            raise RuntimeError("This would delete the payloads of stored spans. Restore the backup instead.")


class Migration(migrations.Migration):
    dependencies = [("ingest", "0017_label")]
    operations = [
        migrations.RunSQL(
            FORWARD,
            BACKWARD,
            state_operations=[
                migrations.AddField("span", "packed_payload", models.BinaryField(null=True)),
                migrations.AddField("span", "arguments_hash", models.BigIntegerField(null=True)),
            ],
        ),
        # Migrations are reversed from the last operation to the first.
        migrations.RunPython(migrations.RunPython.noop, refuse_to_lose_payloads),
    ]
