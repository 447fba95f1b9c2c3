"""When a session's window and trigger were told: what arrives late must not hide, or be hidden by, what was decided later."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ingest", "0006_stray")]
    operations = [
        migrations.AddField("session", "window_at", models.DateTimeField(null=True)),
        migrations.AddField("session", "trigger_at", models.DateTimeField(null=True)),
    ]
