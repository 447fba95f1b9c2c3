"""Index the archival events, which the list of transcripts reads across sessions. They are few among the spans."""

from django.db import migrations

FORWARD = "CREATE INDEX span_archivals ON ingest_span (project_id, seq) WHERE kind = 'compact.archival'"
BACKWARD = "DROP INDEX span_archivals"


class Migration(migrations.Migration):
    dependencies = [("ingest", "0009_anchor_mark")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
