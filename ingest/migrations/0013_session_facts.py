"""Add the facts of a session's compactions, and count those that are already stored.

`worst_retention` becomes the share of facts that the worst compaction kept. It was the weighted share of the client.
"""

import json

from django.db import migrations, models, transaction

from ingest.decoding.facts import count_facts

BATCH = 200
RETENTIONS = """
SELECT session_key, data::text FROM ingest_span
WHERE session_key = ANY(%s) AND session_day = ANY(%s) AND kind = 'compact.retention'
"""


def count_stored_facts(apps, schema_editor):
    """Count the facts of compacted sessions. A small transaction per batch leaves the writers room."""
    sessions = apps.get_model("ingest", "Session").objects
    keys = list(sessions.filter(worst_retention__isnull=False).values_list("session_key", flat=True))
    for start in range(0, len(keys), BATCH):
        with transaction.atomic(using=schema_editor.connection.alias):
            rows = {
                session.session_key: session
                for session in sessions.filter(session_key__in=keys[start : start + BATCH])
                .order_by("session_key")
                .select_for_update()
            }
            facts = _read_facts(schema_editor.connection, rows)
            for key, counts in facts.items():
                session = rows[key]
                session.facts_total = sum(count.total for count in counts)
                session.facts_kept = sum(count.kept for count in counts)
                session.worst_retention = min((count.share for count in counts if count.total), default=None)
            sessions.bulk_update(
                [rows[key] for key in facts], ["facts_total", "facts_kept", "worst_retention"], batch_size=BATCH
            )


def _read_facts(connection, rows):
    """Return the counts of each session whose retention events have them."""
    facts = {}
    with connection.cursor() as cursor:
        cursor.execute(RETENTIONS, [list(rows), list({row.day for row in rows.values()})])
        for key, data in cursor.fetchall():
            if (count := count_facts(json.loads(data))) is not None:
                facts.setdefault(key, []).append(count)
    return facts


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("ingest", "0012_search")]
    operations = [
        migrations.AddField("session", "facts_total", models.IntegerField(default=0, db_default=0)),
        migrations.AddField("session", "facts_kept", models.IntegerField(default=0, db_default=0)),
        migrations.RunPython(count_stored_facts, migrations.RunPython.noop),
    ]
