"""Create the mark of the newest anchor, and index chain links by time, the order in which anchors cover them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ingest", "0008_view_reason")]
    operations = [
        migrations.CreateModel(
            name="AnchorMark",
            fields=[
                ("number", models.BigIntegerField(primary_key=True, serialize=False)),
                ("until", models.DateTimeField()),
                ("hash", models.CharField(max_length=64)),
            ],
        ),
        migrations.RunSQL(
            "CREATE INDEX chainlink_time ON ingest_chainlink (time, session_key, position)",
            "DROP INDEX chainlink_time",
        ),
    ]
