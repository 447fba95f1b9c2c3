"""Add the times of a session's window and trigger, so that late events do not overwrite newer values."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ingest", "0006_stray")]
    operations = [
        migrations.AddField("session", "window_at", models.DateTimeField(null=True)),
        migrations.AddField("session", "trigger_at", models.DateTimeField(null=True)),
    ]
