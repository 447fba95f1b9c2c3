"""Create the table of message texts, which are stored once per project."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ingest", "0003_chain")]
    operations = [
        migrations.CreateModel(
            name="Message",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "hash", "project_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("hash", models.BinaryField(max_length=32)),
                ("project_id", models.IntegerField()),
                ("day", models.DateField()),
                ("size", models.IntegerField()),
                ("body", models.BinaryField()),
            ],
            options={"indexes": [models.Index(fields=["project_id", "day"], name="message_day")]},
        ),
        # The values are already compressed.
        migrations.RunSQL("ALTER TABLE ingest_message ALTER COLUMN body SET STORAGE EXTERNAL", migrations.RunSQL.noop),
    ]
