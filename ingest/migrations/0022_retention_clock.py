"""Create the clock of retention and the marks of what it will delete: one row, and one row per project."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ingest", "0021_cell")]
    operations = [
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
            name="RetentionMark",
            fields=[
                (
                    "project",
                    models.OneToOneField(
                        on_delete=models.CASCADE,
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
    ]
