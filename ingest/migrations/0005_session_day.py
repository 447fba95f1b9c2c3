"""Add an index for retention. It is created concurrently because the session table may be large."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("ingest", "0004_message")]
    operations = [
        AddIndexConcurrently("session", models.Index(fields=["day", "project_id"], name="session_day")),
    ]
