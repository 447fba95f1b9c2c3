"""An index for retention, which asks day by day; made beside running writers, because sessions may be many by now."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("ingest", "0004_message")]
    operations = [
        AddIndexConcurrently("session", models.Index(fields=["day", "project_id"], name="session_day")),
    ]
