"""Count a summary that used a fallback as a fallback only, and no longer as an error too."""

from django.db import migrations

FORWARD = """
UPDATE ingest_session SET error_count = greatest(error_count - fallback_count, 0)
WHERE fallback_count > 0 AND error_count > 0
"""
BACKWARD = "UPDATE ingest_session SET error_count = error_count + fallback_count WHERE fallback_count > 0"


class Migration(migrations.Migration):
    dependencies = [("ingest", "0018_packed_payload")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
