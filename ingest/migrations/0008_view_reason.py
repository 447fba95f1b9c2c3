"""Add the project setting that demands a reason before anyone sees payloads, and hide texts in the model column.

The model of a session is shown to everyone who can see the session. Later versions check it on ingest.
"""

from django.db import migrations, models

HIDE_TEXTS = """
UPDATE ingest_session SET model = '[hidden]'
WHERE model <> '' AND model !~ '^[A-Za-z0-9_@][A-Za-z0-9_.:/@+&()-]*( [A-Za-z0-9_.:/@+&()-]+){0,3}$'
"""


class Migration(migrations.Migration):
    dependencies = [("ingest", "0007_policy_times")]
    operations = [
        migrations.AddField(
            "project",
            "requires_view_reason",
            models.BooleanField(
                db_default=False,
                default=False,
                help_text="People enter a reason before they see payloads. It is recorded in the audit log.",
            ),
        ),
        migrations.RunSQL(HIDE_TEXTS, migrations.RunSQL.noop),
    ]
