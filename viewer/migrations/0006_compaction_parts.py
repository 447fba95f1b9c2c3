"""Create the table of stored parts of compaction pages, which the next migration drops."""

from django.db import migrations, models


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
    ]
