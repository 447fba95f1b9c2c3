"""Index the audit log by session, and add the outcome of a request for an address that does not exist.

The index serves the filter by session, and the check that a payload view was already logged.
"""

from django.db import migrations

FORWARD = [
    "CREATE INDEX auditentry_session ON viewer_auditentry ((detail ->> 'session'), position DESC)",
    "CREATE INDEX auditentry_session_key ON viewer_auditentry ((detail ->> 'session_key'), position DESC)",
    "CREATE INDEX auditentry_at ON viewer_auditentry (at)",
    "ALTER TABLE viewer_auditentry DROP CONSTRAINT viewer_auditentry_outcome_check",
    """
ALTER TABLE viewer_auditentry ADD CONSTRAINT viewer_auditentry_outcome_check
    CHECK (outcome IN ('ok', 'denied', 'not_found'))
""",
]
BACKWARD = [
    "DROP INDEX auditentry_session",
    "DROP INDEX auditentry_session_key",
    "DROP INDEX auditentry_at",
    "ALTER TABLE viewer_auditentry DROP CONSTRAINT viewer_auditentry_outcome_check",
    """
ALTER TABLE viewer_auditentry ADD CONSTRAINT viewer_auditentry_outcome_check CHECK (outcome IN ('ok', 'denied')) NOT VALID
""",
]


class Migration(migrations.Migration):
    dependencies = [("viewer", "0003_audit")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
