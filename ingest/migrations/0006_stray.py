"""Create the table of spans that are stored in another session than their trace."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ingest", "0005_session_day")]
    operations = [
        migrations.CreateModel(
            name="Stray",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "trace_key", "span_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("trace_key", models.UUIDField()),
                ("span_id", models.TextField()),
                ("session_key", models.UUIDField()),
            ],
            options={"indexes": [models.Index(fields=["session_key"], name="stray_session")]},
        ),
    ]
