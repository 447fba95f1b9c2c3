"""Create the table of stored parts of compaction pages.

Compactions that exist already are stored when a user opens them, so that an upgrade does not compute all of them.
"""

from django.db import migrations, models

START_AT_NOW = """
INSERT INTO viewer_compactionarrivals (project_id, seq)
SELECT project_id, max(last_seq) FROM ingest_session GROUP BY project_id
"""


class Migration(migrations.Migration):
    dependencies = [("ingest", "0017_label"), ("viewer", "0005_operations")]
    operations = [
        migrations.CreateModel(
            name="CompactionParts",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "session_key", "number", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("session_key", models.UUIDField()),
                ("number", models.PositiveIntegerField()),
                ("project_id", models.IntegerField()),
                ("version", models.CharField(max_length=64)),
                ("public", models.BinaryField()),
                ("content", models.BinaryField()),
            ],
        ),
        migrations.CreateModel(
            name="CompactionArrivals",
            fields=[
                ("project_id", models.IntegerField(primary_key=True, serialize=False)),
                ("seq", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.RunSQL(START_AT_NOW, migrations.RunSQL.noop),
    ]
